# SPDX-License-Identifier: Apache-2.0
"""A child process keeps its bounds, and ends when its parent is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.paths import ROOT
from tests.support.processes import gone

# Starts a child that says its number and then computes; is then killed by the test.
PARENT = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", sys.argv[1]])
import time
time.sleep(60)
"""
CHILD = """
import os
from bounded_child import end_with_parent
end_with_parent(os.getppid(), one_thread={one_thread})
print(os.getpid(), flush=True)
while True:
    pass
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "common")}


@pytest.mark.parametrize("one_thread", [True, False])
def test_a_busy_child_ends_with_its_killed_parent(one_thread: bool):
    words = [sys.executable, "-c", PARENT, CHILD.format(one_thread=one_thread)]
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 30
        while not gone(child):
            assert time.monotonic() < deadline, "the child goes on"
            time.sleep(0.05)


def run(code: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", f"import resource\nfrom bounded_child import bound, bound_cpu, confine\n{code}"]
    return subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=60, check=False)


def test_cpu_time_ends_it():
    assert run("bound_cpu(0.1)\nwhile True: pass").returncode == -signal.SIGXCPU


def test_cpu_time_is_counted_from_now():
    """A child is used again; what it has used before is no later job's."""
    used = "import time\nwhile time.process_time() < 1.2: pass\n"
    assert (
        run(
            f"{used}bound_cpu(1)\nlimit = time.process_time() + 0.2\nwhile time.process_time() < limit: pass"
        ).returncode
        == 0
    )


def test_a_final_bound_stays_and_another_can_be_raised():
    code = """
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
bound(resource.RLIMIT_FSIZE, 1000)
bound(resource.RLIMIT_FSIZE, 2000)
print(resource.getrlimit(resource.RLIMIT_FSIZE) == (2000, hard))
bound(resource.RLIMIT_FSIZE, 500, final=True)
bound(resource.RLIMIT_FSIZE, 2000)
print(resource.getrlimit(resource.RLIMIT_FSIZE) == (500, 500))
"""
    done = run(code)
    assert (done.stdout.split(), done.stderr) == (["True", "True"], "")


def test_a_confined_process_leaves_no_core_goes_first_and_gains_nothing():
    code = """
confine(oom_score=900)
print(*resource.getrlimit(resource.RLIMIT_CORE), open("/proc/self/oom_score_adj").read().strip())
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")][0])
"""
    done = run(code)
    assert (done.stdout.split(), done.stderr) == (["0", "0", "900", "1"], "")
