# SPDX-License-Identifier: Apache-2.0
"""python -m container.layout: the state of this container's layout server, for scripts/support_bundle.sh.

`describe` is its line in container.status.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from container import supervisord
from declared_settings import flag, port, unchecked
from health_probe import probe

TIMEOUT_SECONDS = 10
WAITING = re.compile(r"^layout_waiting_pages (\S+)$", re.MULTILINE)
ABSENT = "no layout server in this container: LAYOUT_SERVER is not 1"


def url(env: Mapping[str, str]) -> str:
    """The layout server's address inside the container, "" without one."""
    return f"http://127.0.0.1:{port(env, 'LAYOUT_PORT')}" if flag(env, "LAYOUT_SERVER") else ""


def describe(env: Mapping[str, str]) -> dict[str, Any] | None:
    """{"up", "ended", "device", "batch", "waiting", "detail"}, None where there is none. `ended`: supervisord no longer
    starts it. While it does not answer, `device` is the setting; `batch` (most pages of a call) and `waiting` (pages in
    its queue) are null then, and `detail` says why."""
    if not (own := url(env)):
        return None
    health, metrics = (probe(f"{own}/{page}", TIMEOUT_SECONDS) for page in ("health", "metrics"))
    try:
        told = json.loads(health.detail) if health.healthy else {}
    except ValueError:
        told = {}
    waiting = WAITING.search(metrics.detail) if metrics.healthy else None
    return {
        "up": bool(told),
        "ended": not told and supervisord.stays_away(env, "layout").exists(),
        "device": told.get("device") or unchecked(env, "LAYOUT_DEVICE"),
        "batch": told.get("batch"),
        "waiting": int(float(waiting[1])) if waiting else None,
        "detail": "" if told else health.detail[:200],
    }


def pages(env: Mapping[str, str]) -> str:
    """Its raw health and metrics, or the reason why there are none."""
    if not (own := url(env)):
        return ABSENT
    return "\n".join(
        f"GET {own}/{page}\n{probe(f'{own}/{page}', TIMEOUT_SECONDS).detail}" for page in ("health", "metrics")
    )


if __name__ == "__main__":
    print(pages(os.environ))
