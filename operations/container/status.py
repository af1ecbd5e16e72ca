# SPDX-License-Identifier: Apache-2.0
"""python -m container.status: one JSON object about this container's servers, for scripts/status.sh.

{"configured": N, "replicas": [{"number", "port", "die", "up", "detail"}], "missing": "5,6", "half": "first", "layout":
...}. `die` is null on CPU; `missing` names dies of NPU_IDS that scripts/select_npus.sh left out. `half` is empty unless
the container uses one half of its dies; the others' replicas are neither configured nor listed. `layout` is
container.layout's object, null without a layout server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import npu_smi
from container import layout, replicas
from health_probe import probe
from selftest.check import KEY_FILE

TIMEOUT_SECONDS = 10


def record(env: Mapping[str, str]) -> Path:
    """The file in which the container's start leaves the number of replicas."""
    return Path(env["RUN_DIR"]) / "replicas.json"


def write(env: Mapping[str, str]) -> None:
    """Write the values that the start derived, because a later `docker compose exec` does not see them: settings, and
    the ports of serving replicas, which the self-test reads too (common/selftest)."""
    names = ("VLM_REPLICAS", "VLM_REPLICAS_PER_DIE", "VLM_REPLICA_PORT", "VLM_PORT")
    ports = [replicas.port(env, index) for index in serving(env)]
    settings = {name: env[name] for name in names if env.get(name)}
    record(env).write_text(json.dumps({"settings": settings, "ports": ports}))


def write_key(env: Mapping[str, str]) -> None:
    """Write the replicas' key, if they ask for one, to a file that only the self-test's user may read. On a command
    line of `docker compose exec` it would show in the host's list of processes."""
    file = record(env).with_name(KEY_FILE)
    file.unlink(missing_ok=True)
    if key := env.get("VLLM_API_KEY"):
        file.touch(mode=0o600)
        file.write_text(key)


def settings(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with the values of `write`. Raises FileNotFoundError before the container has written them."""
    return {**env, **json.loads(record(env).read_text())["settings"]}


def serving(env: Mapping[str, str]) -> list[int]:
    """Numbers of the replicas that are to serve. Here VLM_REPLICAS is what `replicas.count` has found."""
    return [index for index in range(int(env["VLM_REPLICAS"])) if replicas.serves(env, index)]


def describe(env: Mapping[str, str]) -> dict[str, Any]:
    """What `main` prints. Asks every replica for its health at the same time."""
    env = settings(env)
    indices = serving(env)
    addresses = [replicas.urls(env)[index] for index in indices]
    with ThreadPoolExecutor(len(indices)) as threads:
        probes = list(threads.map(lambda url: probe(f"{url}/health", TIMEOUT_SECONDS), addresses))
    dies = npu_smi.device_numbers() if env.get("HARDWARE") == "ascend" else []
    found = [
        {
            "number": index,
            "port": replicas.port(env, index),
            "die": dies[place] if (place := replicas.place(env, index)) < len(dies) else None,
            "up": answer.healthy,
            "detail": "" if answer.healthy else answer.detail[:200],
        }
        for index, answer in zip(indices, probes)
    ]
    missing = env.get("NPU_MISSING") or ""
    told = {"configured": len(indices), "replicas": found, "missing": missing, "half": replicas.chosen_half(env)}
    return {**told, "layout": layout.describe(env)}


if __name__ == "__main__":
    print(json.dumps(describe(dict(os.environ))))
