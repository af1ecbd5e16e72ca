# SPDX-License-Identifier: Apache-2.0
"""docs/several-nodes.md: two compose projects, one PostgreSQL, one bucket, HAProxy in front.

Both run on one machine here, so the disks and the network of two nodes are not shown.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle.progress import say
from free_ports import free_port
from tests.images.client import Client, check_job, check_letter
from tests.images.conftest import stage
from tests.images.folders import demo_models
from tests.images.project import READY_SECONDS, Project
from tests.support.cluster.service import ServiceProxy
from tests.support.paths import LETTER
from tests.support.png_pdf import pdf_of
from tests.support.postgres import PostgresServer
from tests.support.s3 import KEYS, S3Server

# A balancer as a site has one: it asks each parser whether it can parse.
BALANCER = """
defaults
    mode http
    timeout connect 3s
    timeout client 600s
    timeout server 600s
    timeout check 10s
    retries 3
    option redispatch 1
    retry-on conn-failure
listen parsers
    bind 127.0.0.1:{0}
    balance leastconn
    option httpchk GET /health/ready
    default-server check inter 1s fall 2 rise 1
    server a 127.0.0.1:{1}
    server b 127.0.0.1:{2}
"""


@pytest.fixture
def nodes(
    cpu_images: dict[str, str],
    build_environment: dict[str, str],
    postgres: PostgresServer,
    s3: S3Server,
    api_key: tuple[str, str],
    tmp_path: Path,
) -> Iterator[tuple[Project, Project, Client]]:
    """Both projects, up, and a client of the balancer."""
    port = free_port()
    ports = {"database": free_port(), "bucket": free_port()}
    project = Project("paddleocr-vl-node", build_environment)
    # An address of this machine which containers reach: the engine's own network.
    bridge = json.loads(project.docker("network", "inspect", "bridge").stdout)[0]["IPAM"]["Config"][0]["Gateway"]
    outside = [
        ServiceProxy((bridge, ports["database"]), lambda: [("127.0.0.1", postgres.port)]),
        ServiceProxy((bridge, ports["bucket"]), lambda: [("127.0.0.1", s3.port)]),
    ]
    database = postgres.database().rpartition("/")[2]
    # What the guide has in .env, and the port of each.
    settings = KEYS | {
        "PARSER_DATABASE_URL": f"postgresql://docparser@{bridge}:{ports['database']}/{database}",
        "PARSER_STORAGE_URL": s3.bucket(),
        "AWS_ENDPOINT_URL_S3": f"http://{bridge}:{ports['bucket']}",
        "PUBLIC_URL": f"http://127.0.0.1:{port}",
        "PARSER_BIND": "0.0.0.0",
        "PARSER_TRUSTED_PROXIES": bridge,
        "PARSER_API_KEYS": api_key[0].strip(),
        "MODELS_DIR": str(demo_models(tmp_path)),
        "LAYOUT_ENGINE": "paddle",  # each parser would make a graph for OpenVINO first
    }
    a, b = (
        Project(f"paddleocr-vl-node-{name}", build_environment | settings | {"PARSER_PORT": str(free_port())})
        for name in "ab"
    )
    config = tmp_path / "haproxy.cfg"
    config.write_text(BALANCER.format(port, a.env["PARSER_PORT"], b.env["PARSER_PORT"]))
    balancer = subprocess.Popen(["/usr/sbin/haproxy", "-db", "-q", "-f", config])
    try:
        for node in (a, b):
            with stage(f"{node.name}: docker compose up --wait"):
                node.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "1200", timeout=1300)
                node.wait_ready(READY_SECONDS)
        yield a, b, Client(f"http://127.0.0.1:{port}", "127.0.0.1", api_key[1])
    except AssertionError:
        for node in (a, b):
            sys.stderr.write(node.compose("logs", "--tail", "60", check=False).stdout)
        raise
    finally:
        for node in (a, b):
            node.compose("down", "--volumes", "--timeout", "30", check=False, timeout=300)
        balancer.kill()
        balancer.wait()
        for proxy in outside:
            proxy.close()


def test_a_node_loses_its_power_in_the_middle_of_a_job(nodes: tuple[Project, Project, Client]):
    a, _, client = nodes
    job = client.submit(pdf_of(LETTER.read_bytes(), 8))
    client.wait_for_pages(job, 2)
    began = time.monotonic()
    a.compose("kill")
    check_job(client, job, 8)
    say(f"  one node killed, the other had the job's pages after {time.monotonic() - began:.0f} s")
    check_letter(client.parse(LETTER))
