# SPDX-License-Identifier: Apache-2.0
"""Write HAProxy's configuration for this container's replicas, or for pods of the VLM, and become HAProxy.

If VLM_PODS names pods (deploy/kubernetes), the container has no replicas of its own. HAProxy then gets the pods'
addresses from the cluster's name server, and probes each pod.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from container import replicas, supervisord
from health_probe import probe

TEMPLATE = Path(__file__).resolve().parents[2] / "config" / "haproxy.cfg"
PLACES = ("    # maxconn\n", "    # replicas\n")
LEAST_CONNECTIONS = 512
# Connections per request that a replica computes at once. The surplus waits at the replica, so that it never runs dry.
FOR_EACH_REQUEST = 2


# The pods' addresses change, so they are asked for every second. Answers may exceed the 512 bytes of old name servers.
NAMES = """
resolvers cluster
    parse-resolv-conf
    accepted_payload_size 8192
    timeout resolve 1s
    hold valid 1s
"""


def of_replicas(template: str, ports: list[int], max_num_seqs: int) -> str:
    """The configuration for replicas of this container: one `server` line for each port."""
    servers = "".join(f"    server replica-{index} 127.0.0.1:{port}\n" for index, port in enumerate(ports))
    return render(template, servers, len(ports) * max_num_seqs)


def of_pods(template: str, name: str, port: int, most: int, max_num_seqs: int) -> str:
    """The configuration for the pods whose addresses the name stands for, at most `most` of them."""
    server = f"    server-template pod- {most} {name}:{port} resolvers cluster resolve-prefer ipv4 init-addr none\n"
    return render(template, server, most * max_num_seqs) + NAMES


def render(template: str, servers: str, at_once: int) -> str:
    """The template with its limit of connections and its lines of servers.

    `at_once` is the number of requests that all servers together compute at once. A connection may take two buffers
    (tune.bufsize), while its request is read.
    """
    for place in PLACES:
        if template.count(place) != 1:
            raise ValueError(f"haproxy.cfg: expected the line {place.strip()!r} exactly once")
    connections = max(LEAST_CONNECTIONS, FOR_EACH_REQUEST * at_once)
    return template.replace(PLACES[0], f"    maxconn {connections}\n").replace(PLACES[1], servers)


def wait_for_a_replica(ports: list[int]) -> None:
    """Return when one replica answers. Until then the port stays closed: a client that knows another container too goes
    there at once, instead of getting a 503 here (decision 0415)."""
    while not any(probe(f"http://127.0.0.1:{port}/health").healthy for port in ports):
        time.sleep(1)


def configuration(env: Mapping[str, str]) -> str:
    """HAProxy's command line. Waits for a replica, if this container has some."""
    template, max_num_seqs = TEMPLATE.read_text(encoding="utf-8"), int(env["VLM_MAX_NUM_SEQS"])
    if name := env.get("VLM_PODS"):
        return of_pods(template, name, int(env["VLM_PORT"]), int(env["VLM_MOST_PODS"]), max_num_seqs)
    ports = [replicas.port(env, index) for index in range(int(env["VLM_REPLICAS"]))]
    wait_for_a_replica(ports)
    return of_replicas(template, ports, max_num_seqs)


def main() -> None:
    path = supervisord.balancer_file(os.environ)
    path.write_text(configuration(os.environ))
    env = {
        "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin",
        **{name: os.environ[name] for name in ("VLM_HOST", "VLM_PORT", "METRICS_PORT", "RUN_DIR")},
    }
    # Quiet: its log goes to stdout already.
    os.execvpe("haproxy", ["haproxy", "-db", "-q", "-f", str(path)], env)


if __name__ == "__main__":
    main()
