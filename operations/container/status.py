# SPDX-License-Identifier: Apache-2.0
"""python -m container.status: one JSON object about the replicas of this container, for scripts/status.sh.

{"configured": N, "replicas": [{"number", "port", "die", "up", "detail"}], "missing": "5,6"}. `die` is null on CPU;
`missing` names dies of NPU_IDS that scripts/select_npus.sh left out.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from container import replicas
from health_probe import probe

TIMEOUT_SECONDS = 10


def record(env: dict[str, str]) -> Path:
    """The file in which the container's start leaves what the replicas' number became."""
    return Path(env["RUN_DIR"]) / "replicas.json"


def write(env: dict[str, str]) -> None:
    """Leave what a later `docker compose exec` does not see, because it was derived at the start: settings, and the
    replicas' ports, which the self-test reads too (common/selftest)."""
    names = ("VLM_REPLICAS", "VLM_REPLICAS_PER_DIE", "VLM_REPLICA_PORT", "VLM_PORT")
    ports = [replicas.port(env, index) for index in range(int(env["VLM_REPLICAS"]))]
    settings = {name: env[name] for name in names if env.get(name)}
    record(env).write_text(json.dumps({"settings": settings, "ports": ports}))


def describe(env: dict[str, str]) -> dict[str, Any]:
    """What `main` prints. Asks every replica for its health at the same time."""
    env = {**env, **json.loads(record(env).read_text())["settings"]}
    count = int(env["VLM_REPLICAS"])
    addresses = replicas.urls(env)
    with ThreadPoolExecutor(count) as threads:
        probes = list(threads.map(lambda url: probe(f"{url}/health", TIMEOUT_SECONDS), addresses))
    dies = replicas.dies() if env.get("HARDWARE") == "ascend" else []
    found = [
        {
            "number": index,
            "port": replicas.port(env, index),
            "die": dies[place] if (place := replicas.place(env, index)) < len(dies) else None,
            "up": answer.healthy,
            "detail": "" if answer.healthy else answer.detail[:200],
        }
        for index, answer in enumerate(probes)
    ]
    return {"configured": count, "replicas": found, "missing": env.get("NPU_MISSING") or ""}


if __name__ == "__main__":
    print(json.dumps(describe(dict(os.environ))))
