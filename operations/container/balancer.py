# SPDX-License-Identifier: Apache-2.0
"""Write HAProxy's configuration for this container's replicas, and become HAProxy."""

from __future__ import annotations

import os
import time
from pathlib import Path

from container import replicas
from health_probe import probe

TEMPLATE = Path(__file__).resolve().parents[2] / "config" / "haproxy.cfg"
PLACES = ("    # maxconn\n", "    # replicas\n")
LEAST_CONNECTIONS = 512
# Connections for each request that a replica computes at once: as many may wait there, so that no replica runs dry.
FOR_EACH_REQUEST = 2


def render(template: str, ports: list[int], max_num_seqs: int) -> str:
    """The template with its limit of connections and one `server` line for each port.

    `max_num_seqs` is the number of requests that a replica computes at once. A connection may take two buffers
    (tune.bufsize), while its request is read.
    """
    for place in PLACES:
        if template.count(place) != 1:
            raise ValueError(f"haproxy.cfg: expected the line {place.strip()!r} exactly once")
    connections = max(LEAST_CONNECTIONS, FOR_EACH_REQUEST * max_num_seqs * len(ports))
    servers = "".join(f"    server replica-{index} 127.0.0.1:{port}\n" for index, port in enumerate(ports))
    return template.replace(PLACES[0], f"    maxconn {connections}\n").replace(PLACES[1], servers)


def wait_for_a_replica(ports: list[int]) -> None:
    """Return when one replica answers. Until then nobody listens, so that a client who knows the address of another
    container too takes that one at once, and gets no 503 (decision 0415)."""
    while not any(probe(f"http://127.0.0.1:{port}/health").healthy for port in ports):
        time.sleep(1)


def main() -> None:
    ports = [replicas.port(os.environ, index) for index in range(int(os.environ["VLM_REPLICAS"]))]
    wait_for_a_replica(ports)
    path = Path(os.environ["RUN_DIR"]) / "haproxy.cfg"
    path.write_text(render(TEMPLATE.read_text(encoding="utf-8"), ports, int(os.environ["VLM_MAX_NUM_SEQS"])))
    env = {
        "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin",
        **{name: os.environ[name] for name in ("VLM_HOST", "VLM_PORT", "METRICS_PORT", "RUN_DIR")},
    }
    # Quiet: its log goes to stdout already.
    os.execvpe("haproxy", ["haproxy", "-db", "-q", "-f", str(path)], env)


if __name__ == "__main__":
    main()
