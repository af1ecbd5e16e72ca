# SPDX-License-Identifier: Apache-2.0
"""python -m vlm_server.die_check: each die of this container by itself; one JSON object as the last line of stdout.

{"kind": "npu" or "cpu", "dies": [{"die": number or null, "seconds", "findings": [...], "problem": ""}]}; findings are
those of `one`. It needs no running server. The exit status is 1 where an operator differs or a die does not answer.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tool_errors import FAILED, DeviceError, run

# A die's first process compiles operators, which takes minutes.
SECONDS = 600.0


def dies(devices: Path = Path("/dev")) -> list[int]:
    """Numbers of the dies that this container holds, ascending."""
    names = (re.fullmatch(r"davinci(\d+)", path.name) for path in devices.iterdir())
    return sorted(int(name[1]) for name in names if name)


def environment(env: Mapping[str, str], place: int | None, folder: Path) -> dict[str, str]:
    """The environment of the process for the die at `place` among the container's; None on a CPU, and where there is
    one die, which is number 0 without a variable. CANN writes below `folder`, its logs to the container's volume, where
    scripts/support_bundle.sh finds them."""
    logs = Path(env.get("STATE_DIR") or folder) / "ascend-log/die-check"
    own = {"ASCEND_WORK_PATH": folder, "ASCEND_CACHE_PATH": folder, "ASCEND_PROCESS_LOG_PATH": logs}
    found = {**env, **{name: str(path) for name, path in own.items()}, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    found.pop("ASCEND_RT_VISIBLE_DEVICES", None)
    return found if place is None else {**found, "ASCEND_RT_VISIBLE_DEVICES": str(place)}


def check(kind: str, die: int | None, env: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """One die in a process of its own, which can crash or hang without the others."""
    command, began = [sys.executable, "-m", "vlm_server.die_check.one", kind], time.monotonic()
    findings, problem = [], ""
    try:
        done = subprocess.run(
            command, env=dict(env), cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        sys.stderr.write(done.stderr)
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            said = (done.stderr.strip().splitlines() or ["no message"])[-1]
            problem = f"the process ended with status {done.returncode}: {said[:300]}"
        else:
            findings = json.loads(lines[-1])
    except subprocess.TimeoutExpired:
        problem = f"no answer within {SECONDS:.0f} s"
    return {"die": die, "seconds": round(time.monotonic() - began, 1), "findings": findings, "problem": problem}


def check_all(env: Mapping[str, str], devices: Path = Path("/dev")) -> dict[str, Any]:
    """Every die, one after the other. Raises DeviceError where HARDWARE is `ascend` and there is none."""
    kind = "npu" if env.get("HARDWARE") == "ascend" else "cpu"
    numbers: list[int | None] = [*dies(devices)] if kind == "npu" else [None]
    if not numbers:
        raise DeviceError("no /dev/davinci* is here; NPU_IDS must name dies of this node (npu-smi info)")
    found = []
    with tempfile.TemporaryDirectory(prefix="die-check-") as folder:
        for place, die in enumerate(numbers):
            own = environment(env, place if len(numbers) > 1 else None, Path(folder))
            if kind == "npu":
                Path(own["ASCEND_PROCESS_LOG_PATH"]).mkdir(parents=True, exist_ok=True)
            found.append(check(kind, die, own, Path(folder)))
            print(f"die check: {place + 1} of {len(numbers)}", file=sys.stderr, flush=True)
    return {"kind": kind, "dies": found}


def main() -> int:
    result = check_all(os.environ)
    print(json.dumps(result))
    well = all(
        not die["problem"] and not any(finding["words"] for finding in die["findings"]) for die in result["dies"]
    )
    return 0 if well else FAILED


if __name__ == "__main__":
    sys.exit(run(main))
