# SPDX-License-Identifier: Apache-2.0
"""python -m vlm_server.die_check: each die of this container by itself; a line of JSON on stdout as each one ends.

{"kind": "npu" or "cpu", "die": number or null, "seconds", "findings": [...], "problem": ""}; findings are those of
`one`. After the second die that hangs no further one is asked, and the lines of the others say so. It needs no running
server. The exit status is 1 where an operator differs or a die does not answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cgroup
import thread_pools
from npu_smi import device_numbers
from tool_errors import FAILED, DeviceError, run

# A die's first process compiles operators, which takes minutes.
SECONDS = 600.0
# A process that waits in the driver does not even end when it is killed.
END_SECONDS = 10.0
NO_ANSWER, MOST_HANGING = "no answer within", 2


def environment(env: Mapping[str, str], place: int | None, folder: Path) -> dict[str, str]:
    """The environment of the process for the die at `place` among the container's; None on a CPU, and where there is
    one die, which is number 0 without a variable. CANN writes below `folder`, its logs to the container's volume, where
    scripts/support_bundle.sh finds them. As a replica has it: of 640 cores, not as many threads."""
    logs = Path(env.get("STATE_DIR") or folder) / "ascend-log/die-check"
    own = {"ASCEND_WORK_PATH": folder, "ASCEND_CACHE_PATH": folder, "ASCEND_PROCESS_LOG_PATH": logs}
    found = {**env, **{name: str(path) for name, path in own.items()}, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    found |= thread_pools.environment(env, cgroup.cores())
    found.pop("ASCEND_RT_VISIBLE_DEVICES", None)
    return found if place is None else {**found, "ASCEND_RT_VISIBLE_DEVICES": str(place)}


def check(kind: str, die: int | None, env: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """One die in a process of its own, which can crash or hang without the others."""
    command, began = [sys.executable, "-m", "vlm_server.die_check.one", kind], time.monotonic()
    findings, problem, pipe = [], "", subprocess.PIPE
    # A group of its own, so that the compilers that CANN starts end with it.
    process = subprocess.Popen(
        command, env=dict(env), cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        problem, out, err = f"{NO_ANSWER} {SECONDS:.0f} s", "", ""
        os.killpg(process.pid, signal.SIGKILL)
        try:
            out, err = process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            problem += ", and its process does not end when it is killed"
    sys.stderr.write(err)
    lines = out.strip().splitlines()
    if not problem and (process.returncode or not lines):
        said = (err.strip().splitlines() or ["no message"])[-1]
        problem = f"the process ended with status {process.returncode}: {said[:300]}"
    elif not problem:
        findings = json.loads(lines[-1])
    seconds = round(time.monotonic() - began, 1)
    return {"kind": kind, "die": die, "seconds": seconds, "findings": findings, "problem": problem}


def check_all(env: Mapping[str, str], devices: Path = Path("/dev")) -> Iterator[dict[str, Any]]:
    """Every die, one after the other. Raises DeviceError where HARDWARE is `ascend` and there is none."""
    kind = "npu" if env.get("HARDWARE") == "ascend" else "cpu"
    numbers: list[int | None] = [*device_numbers(devices)] if kind == "npu" else [None]
    if not numbers:
        raise DeviceError("no /dev/davinci* is here; NPU_IDS must name dies of this node (npu-smi info)")
    hanging: list[str] = []
    # On the volume, as a replica's: what CANN compiles there may have to run, and a container's /tmp is noexec.
    with tempfile.TemporaryDirectory(prefix="die-check-", dir=env.get("STATE_DIR") or None) as folder:
        for place, die in enumerate(numbers):
            if len(hanging) == MOST_HANGING:
                problem = f"not checked, since the dies {' and '.join(hanging)} hang"
                yield {"kind": kind, "die": die, "seconds": 0.0, "findings": [], "problem": problem}
                continue
            own = environment(env, place if len(numbers) > 1 else None, Path(folder))
            if kind == "npu":
                Path(own["ASCEND_PROCESS_LOG_PATH"]).mkdir(parents=True, exist_ok=True)
            # Before it, so that the last line names the die that hangs.
            name = "the CPU" if die is None else f"die {die}"
            print(f"die check: {name}, {place + 1} of {len(numbers)}", file=sys.stderr, flush=True)
            found = check(kind, die, own, Path(folder))
            if found["problem"].startswith(NO_ANSWER):
                hanging.append(str(die))
            yield found


def main() -> int:
    well = True
    for die in check_all(os.environ):
        print(json.dumps(die), flush=True)
        well = well and not die["problem"] and not any(finding["words"] for finding in die["findings"])
    return 0 if well else FAILED


if __name__ == "__main__":
    sys.exit(run(main))
