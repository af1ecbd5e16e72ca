# SPDX-License-Identifier: Apache-2.0
"""Start the VLM's container: check device, settings and weights, then run replicas and balancer under supervisord.

Ends with status 2 and one line on stderr when one of them is wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from container import cores, replicas, status, supervisord
from container.device_check import check_device
from declared_settings import flag, refuse_mistakes
from tool_errors import ToolError, with_place

FILES = ("vlm", "balancer", "guard")
PROGRAMS = ("vlm", "balancer", "metrics", "watchdog", "guard")
LAYOUT = ("layout",)  # where LAYOUT_SERVER is 1
DEFAULTS = {
    "VLM_HOST": "0.0.0.0",
    "VLM_PORT": "8000",
    "VLM_REPLICA_PORT": "8100",
    "LAYOUT_HOST": "0.0.0.0",
    "METRICS_PORT": "8099",
}


def main() -> int:
    """Returns a status only where something is wrong."""
    try:
        refuse_mistakes(os.environ)
        layout = LAYOUT if flag(os.environ, "LAYOUT_SERVER") else ()
        supervisord.prepare_logs((*PROGRAMS, *layout), Path(os.environ["RUN_DIR"]))
        count = replicas.count(os.environ)
        cores.check({**os.environ, "VLM_REPLICAS": str(count)}, sorted(os.sched_getaffinity(0)))
        check_device(os.environ)
    except ToolError as error:
        print(f"error: {with_place(str(error))}", file=sys.stderr)
        return 2
    if missing := os.environ.get("NPU_MISSING"):
        print(
            f"WARNING: die {missing} of NPU_IDS={os.environ.get('NPU_WANTED')} was not there when "
            f"scripts/select_npus.sh looked; {count} replicas serve without it",
            flush=True,
        )
    env = supervisord.environment((*FILES, *layout), DEFAULTS, {**os.environ, "VLM_REPLICAS": str(count)})
    launcher = [f"{env['ENVS_DIR']}/vlm/bin/python", "-m", "vlm_server", "--check"]
    checked = subprocess.run(launcher, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if checked.returncode:
        return checked.returncode
    status.write(env)
    found = json.loads(checked.stdout)
    supervisord.become({**env, **settled(env, found)})


def settled(env: Mapping[str, str], found: Mapping[str, Any]) -> dict[str, str]:
    """What holds for all programs until the container ends, of the launcher's answer `found`.

    Where VLM_MODEL is unset, the model is settled too: a replica that starts again would else take weights that were
    fetched meanwhile, and answer 404 to calls for the others' model. The watchdog asks for it by its name and with the
    key that VLM_ARGS may name: a refusal would say nothing about the engine behind it.
    """
    own = {"VLM_MODEL_NAME": found["model"], "VLM_MAX_NUM_SEQS": str(found["max_num_seqs"])}
    if found["api_key"]:
        own["VLLM_API_KEY"] = found["api_key"]
    return own if env.get("VLM_MODEL") or not found["entry"] else {**own, "VLM_MODEL": found["entry"]}


if __name__ == "__main__":
    sys.exit(main())
