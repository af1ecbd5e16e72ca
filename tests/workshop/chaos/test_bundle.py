# SPDX-License-Identifier: Apache-2.0
"""Every action of the chaos tool does what it says and ends; and minutes of trouble for a bundle of its own with the
demo weights: nothing that was accepted is lost.

Longer: `CHAOS_MINUTES=60 scripts/test.sh images-chaos`. CHAOS_SEED gives another plan. The report, the journal and
the containers' logs stay in .run/chaos.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from chaos.bundle_project import Bundle, wait_until
from chaos.faults import ACTIONS
from chaos.faults.disk import ext4_file, free_bytes, small_disk
from chaos.plan import Step
from tests.images.folders import demo_models
from tests.support.engine import base_image, daemon
from tests.support.paths import ROOT
from tests.support.processes import gone

MINUTES = float(os.environ.get("CHAOS_MINUTES") or 2)
SEED = os.environ.get("CHAOS_SEED") or "7"
OUT = ROOT / ".run/chaos"
# Bringing the bundle up, reading undisturbed, waiting for what was accepted, and settling.
AROUND_S = 3600
# Two cores compute the VLM, the layout model and the clients' load at once, beside other tests; on a node with cores of
# its own for the parser the tool's defaults are right. Clients that get no CPU have seen 19 s
# (workshop/chaos/README.md).
BOUNDS = ("--health", "30", "--back", "180", "--ready", "900")

# The sleepers' disk is of 1024 MiB, and no action that fills it leaves so much.
ROOMY = 512 << 20

# Processes with the names of the bundle's, which only sleep.
NAMES = {
    "vlm": (
        "haproxy -db",
        "container.metrics",
        "container.watchdog",
        "container.guard",
        "VLLM::EngineCore",
        "vllm serve",
    ),
    "parser": (
        "container.guard",
        "python -m docparser",
        "python -m docparser.worker.main",
        "python -m docparser.documents.reader",
    ),
    "proxy": ("vlm_proxy",),
}


@pytest.fixture(scope="module")
def sleepers(engine: daemon.Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundle]:
    """Three containers in the place of the bundle's, whose processes sleep, and a small disk."""
    tmp_path = tmp_path_factory.mktemp("sleepers")
    name = f"chaos-sleepers-{os.getpid()}"
    bundle = Bundle(tmp_path, dict(engine.environment), name=name)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/clock_shift").write_bytes(bytes(8))
    bundle.treat("pass", 0)
    bundle.docker("network", "create", "--internal", bundle.network())
    try:
        for service, names in NAMES.items():
            labels = {"com.docker.compose.project": name, "com.docker.compose.service": service}
            marks = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
            places = ("--name", f"{name}-{service}", "--network", bundle.network(), "--restart", "unless-stopped")
            asleep = "".join(f"(exec -a '{title}' sleep 9999) & " for title in names)
            words = ("bash", "-c", f"{asleep}exec -a supervisord sleep 9999")
            bundle.docker("run", "--detach", *places, *marks, base_image.NAME, *words)
        with small_disk(bundle.state, 1024):
            (bundle.state / "data").mkdir()
            os.sync()  # an aborted file system forgets what was not flushed
            yield bundle
    finally:
        for service in NAMES:
            bundle.docker("rm", "--force", f"{name}-{service}", check=False)
        bundle.docker("network", "rm", bundle.network(), check=False)


def statuses(bundle: Bundle) -> list[str]:
    found = [bundle.container(service) for service in NAMES]
    return bundle.docker("inspect", "--format", "{{.State.Status}}", *found).split()


def connected(bundle: Bundle) -> set[str]:
    """The services that are in the internal network."""
    words = bundle.docker("network", "inspect", "--format", "{{range .Containers}}{{.Name}} {{end}}", bundle.network())
    return {name.rpartition("-")[2] for name in words.split()}


def stopped(bundle: Bundle) -> set[int]:
    """Processes that are stopped (SIGSTOP)."""
    pids = {pid for service in NAMES for pid in bundle.processes(service)}
    states = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids}
    return {pid for pid, letter in states.items() if letter == "T"}


def dropping(bundle: Bundle) -> list[bool]:
    """Whether packets to the VLM's port vanish, in each container."""
    namespaces = [["nsenter", "--target", str(bundle.first_process(service)), "--net"] for service in NAMES]
    rules = [subprocess.run([*words, "iptables", "-S"], capture_output=True, text=True) for words in namespaces]
    return ["-j DROP" in found.stdout for found in rules]


def writable(bundle: Bundle) -> bool:
    """Asked by a write: not every kernel says of an aborted file system that it is read-only."""
    try:
        (bundle.state / "written").touch()
    except OSError:
        return False
    (bundle.state / "written").unlink()
    return True


# What actions change as long as they last -> how it is seen.
PARTS: dict[str, Callable[[Bundle], object]] = {
    "statuses": statuses,
    "connected": connected,
    "stopped": stopped,
    "dropping": dropping,
    "writable": writable,
    "roomy": lambda bundle: free_bytes(bundle.state) > ROOMY,
    "clock": lambda bundle: (bundle.folder / "tools/clock_shift").read_bytes(),
    "vlm": lambda bundle: json.loads((bundle.folder / "tools/treatment").read_text())["mode"],
}
CHANGED = {
    "vlm *": "vlm",
    "disk read-only": "writable",
    "disk *": "roomy",
    "clock *": "clock",
    "network *": "connected",
    "packets *": "dropping",
    "stop *": "stopped",
    "*container* killed": "statuses",
    "container * paused": "statuses",
}


def complete(bundle: Bundle) -> None:
    """Bring back processes that an action has killed: nobody starts a sleeper again."""
    for service, names in NAMES.items():
        if len(bundle.processes(service)) < len(names) + 1:
            bundle.docker("restart", "--time", "0", bundle.container(service))
            assert wait_until(lambda: len(bundle.processes(service)) == len(names) + 1, 60, 0.1), service  # noqa: B023


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_does_what_it_says_and_puts_it_back(sleepers: Bundle, name: str):
    complete(sleepers)
    database = sleepers.state / "data/jobs.sqlite3"
    database.write_text("a database")
    before = {part: see(sleepers) for part, see in PARTS.items()}
    alive = {pid for service in NAMES for pid in sleepers.processes(service)}
    if name == "disk read-only" and not ext4_file(sleepers.state).exists():
        pytest.skip("this machine has no loop devices")
    changed = next((part for pattern, part in CHANGED.items() if fnmatch(name, pattern)), None)
    with ACTIONS[name].begin(sleepers, Step(0, name, 0, 0.5, 0, True)) as target:
        assert target
        if changed:
            assert PARTS[changed](sleepers) != before[changed]
    if name.startswith(("kill", "container parser restarted")):
        assert wait_until(lambda: any(gone(pid) for pid in alive), 60, 0.1)
    else:
        assert changed or not database.exists()
    for part, see in PARTS.items():
        assert wait_until(lambda: see(sleepers) == before[part], 60, 0.1), part  # noqa: B023


def test_nothing_accepted_is_lost(
    cpu_images: dict[str, str], build_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
):
    assert cpu_images.keys() >= {"vlm", "parser"}
    models: Path = demo_models(tmp_path_factory.mktemp("chaos"))
    words = ["--minutes", str(MINUTES), "--seed", SEED, "--out", str(OUT), "--models", str(models)]
    done = subprocess.run(
        [sys.executable, ROOT / "workshop/chaos_bundle.py", *words, *BOUNDS],
        env=build_environment,
        timeout=MINUTES * 60 + AROUND_S,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}; see {OUT}/report.md, journal.jsonl, containers.log"
