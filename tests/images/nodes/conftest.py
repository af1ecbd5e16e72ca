# SPDX-License-Identifier: Apache-2.0
"""More than one node: pods of deploy/kubernetes in a simulated cluster of real containers, and what they share."""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bundle_version import VERSION
from tests.images.client import Client
from tests.images.conftest import STACK, stage
from tests.images.folders import weights_by_hand
from tests.images.project import Project
from tests.support import postgres as postgresql
from tests.support import s3 as buckets
from tests.support.cluster.cluster import Cluster
from tests.support.kubernetes import Facts, rendered
from tests.support.lent import lend
from tests.support.postgres import PostgresServer
from tests.support.s3 import KEYS, S3Server

NAMESPACE = "paddleocr-vl"
READY_S = 1200.0  # generous: two busy cores
# Ports of the gateway at which pods find what is outside of the cluster: those of the policy `parser-queue`.
DATABASE, BUCKET = 5432, 443


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    yield from lend(PostgresServer, postgresql.MISSING)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    yield from lend(S3Server, buckets.MISSING)


@pytest.fixture(scope="session")
def project(build_environment: dict[str, str]) -> Project:
    return Project("paddleocr-vl-nodes", build_environment)


@pytest.fixture(scope="session")
def api_key(project: Project, cpu_images: dict[str, str]) -> tuple[str, str]:
    """(line of the file api_keys, the key itself), made with the guide's command."""
    words = ("run", "--rm", cpu_images["parser"], "python", "-m", "docparser.api_keys", "make", "--name", "clients")
    made = subprocess.run(
        ["docker", *words, "--print"], env=project.env, capture_output=True, text=True, check=True, timeout=120
    )
    return made.stdout, made.stderr.split()[-1]


@pytest.fixture(scope="session")
def secrets(api_key: tuple[str, str]) -> dict[str, Mapping[str, str]]:
    """The site's Secrets; tests add to them before they apply what needs them."""
    return {"parser-keys": {"api_keys": api_key[0]}}


def on_this_machine(objects: list[Facts]) -> list[Facts]:
    """Objects of the overlay `cpu` with one thread for each VLM. The overlay's four are for pods with four cores; here
    two pods share two, and threads would wait for each other at every operation."""
    found = copy.deepcopy(objects)
    for one in found:
        if one["kind"] == "ConfigMap" and one["metadata"]["name"].startswith("vlm-settings"):
            one["data"]["VLM_THREADS"] = "1"
    return found


@pytest.fixture(scope="session")
def cluster(
    cpu_images: dict[str, str],
    project: Project,
    secrets: dict[str, Mapping[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    """A cluster with the overlay `cpu`, all pods ready. One for all tests: starting the VLM takes minutes."""
    if STACK != "0.11.1":
        pytest.skip("the overlays name the images of vLLM 0.11.1")
    folder = tmp_path_factory.mktemp("cluster")
    # The kubelet's folders are open to the pods' users; pytest's are not.
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    claims = {"models": weights_by_hand(folder / "models"), "parser-state": folder / "parser-state"}
    claims["parser-state"].mkdir()
    made = Cluster(project.docker, folder, NAMESPACE, claims, secrets)
    try:
        with stage("the pods of the overlay cpu"):
            made.apply(on_this_machine(rendered("cpu")), READY_S)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def client(cluster: Cluster, api_key: tuple[str, str]) -> Client:
    return Client(f"http://{cluster.gateway}:8080", "parser", api_key[1])


def queue_secret(cluster: Cluster, postgres: PostgresServer, s3: S3Server) -> dict[str, str]:
    """The Secret `parser-queue`, for servers that the pods reach at the gateway."""
    cluster.expose(DATABASE, ("127.0.0.1", postgres.port))
    cluster.expose(BUCKET, ("127.0.0.1", s3.port))
    database = postgres.database().rpartition("/")[2]
    return KEYS | {
        "PARSER_DATABASE_URL": f"postgresql://docparser@{cluster.gateway}:{DATABASE}/{database}",
        "PARSER_STORAGE_URL": s3.bucket(),
        "AWS_ENDPOINT_URL_S3": f"http://{cluster.gateway}:{BUCKET}",
    }


@pytest.fixture(scope="session")
def corpus_image(build_environment: dict[str, str], wheels: Path, project: Project) -> str:
    env = build_environment | {"CORPUS_DIR": os.devnull}
    with stage("building the image of corpus"):
        Project(project.name, env).compose("--profile", "corpus", "build", "corpus", timeout=2400)
    return f"paddleocr-vl/corpus:{VERSION}"
