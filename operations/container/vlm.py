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

import atlas
import npu_smi
from container import cores, replicas, status, supervisord
from declared_settings import DECLARED, flag, refuse_mistakes
from tool_errors import DeviceError, ToolError, with_place

FILES = ("vlm", "balancer", "guard")
PROGRAMS = ("vlm", "balancer", "metrics", "watchdog", "guard")
LAYOUT = ("layout",)  # where LAYOUT_SERVER is 1
DEFAULTS = {
    "VLM_HOST": "0.0.0.0",
    "VLM_PORT": DECLARED["VLM_PORT"].default,
    "VLM_REPLICA_PORT": "8100",
    "LAYOUT_HOST": "0.0.0.0",
    "METRICS_PORT": "8099",
}


def main() -> int:
    """Returns only if something is wrong, with a status."""
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
    env |= settled(env, json.loads(checked.stdout))
    status.write_key(env)
    status.write(env)
    supervisord.become(env)


def settled(env: Mapping[str, str], found: Mapping[str, Any]) -> dict[str, str]:
    """The settings of all programs until the container ends, from the launcher's answer `found`.

    An unset VLM_MODEL is settled too. Otherwise a restarting replica would take weights that were fetched meanwhile,
    and answer 404 to calls for the other replicas' model. The watchdog needs the model's name and the key of VLM_ARGS,
    because a refusal would prove nothing about the engine. The self-test needs both too.
    """
    own = {"VLM_MODEL_NAME": found["model"], "VLM_MAX_NUM_SEQS": str(found["max_num_seqs"])}
    if found["api_key"]:
        own["VLLM_API_KEY"] = found["api_key"]
    return own if env.get("VLM_MODEL") or not found["entry"] else {**own, "VLM_MODEL": found["entry"]}


def check_device(env: Mapping[str, str], devices: Path = Path("/dev")) -> None:
    """Check that this container may open its dies, that they answer, and that the image was built for their kind:
    SOC_VERSION, which it carries, against what npu-smi sees.

    A fault shows here in one line; later it would be a trace of CANN in each of sixteen replicas. Raises DeviceError
    with the cause if a die cannot be opened, if npu-smi lists none, or if the dies are of another kind; UsageError for
    an unknown SOC_VERSION. Without npu-smi, one line says that nothing was compared; vllm-ascend checks the device
    itself later. A mounted npu-smi that may not be run is refused: mounting it asks for the check, the launcher reads
    the dies' memory with it, and a group or mode on the node mends it.
    """
    if env.get("HARDWARE") != "ascend":
        return
    built = atlas.of_soc(env.get("SOC_VERSION", ""))
    if shut := npu_smi.closed(devices):
        path, group = shut
        own = ", ".join(map(str, sorted({os.getegid(), *os.getgroups()})))
        raise DeviceError(
            f"user {os.geteuid()} of the groups {own} may not open {path}, which belongs to group {group}; "
            f"set ASCEND_GID={group} in .env (in Kubernetes: supplementalGroups)"
        )
    answer = npu_smi.ask("info")
    if answer.missing:
        print(f"device check: {answer.text}; the dies are checked by vllm-ascend alone", flush=True)
        return
    if trouble := npu_smi.trouble(answer):
        cause, remedy = trouble
        raise DeviceError(f"{cause}; {remedy}")
    found = {die.generation for die in npu_smi.parse(answer.text).dies}
    if found != {built.title}:
        raise DeviceError(
            f"this image was built for {built.title} ({env.get('SOC_VERSION')}), but the dies here are "
            f"{', '.join(sorted(found))}; set ATLAS in .env to {' or '.join(atlas.KEYS)}, as the dies are, and "
            "docker compose build vlm"
        )


if __name__ == "__main__":
    sys.exit(main())
