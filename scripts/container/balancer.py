# SPDX-License-Identifier: Apache-2.0
"""Write HAProxy's configuration for this container's replicas, and become HAProxy."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from container import replicas  # noqa: E402

TEMPLATE = Path(__file__).resolve().parents[2] / "config" / "haproxy.cfg"
PLACE = "    # replicas\n"


def render(template: str, ports: list[int]) -> str:
    """The template with one `server` line for each port."""
    if template.count(PLACE) != 1:
        raise ValueError(f"haproxy.cfg: expected the line {PLACE.strip()!r} exactly once")
    return template.replace(PLACE, "".join(f"    server replica-{index} 127.0.0.1:{port}\n"
                                           for index, port in enumerate(ports)))


def main() -> None:
    ports = [replicas.port(os.environ, index) for index in range(int(os.environ["VLM_REPLICAS"]))]
    path = Path(os.environ["RUN_DIR"]) / "haproxy.cfg"
    path.write_text(render(TEMPLATE.read_text(encoding="utf-8"), ports))
    env = {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin", **{name: os.environ[name] for name in
                                                                ("VLM_HOST", "VLM_PORT", "METRICS_PORT")}}
    # Quiet: what it has to say is in its log, which goes to stdout too.
    os.execvpe("haproxy", ["haproxy", "-db", "-q", "-f", str(path)], env)


if __name__ == "__main__":
    main()
