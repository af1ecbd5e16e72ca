# SPDX-License-Identifier: Apache-2.0
"""Fixtures: processes that end with the test, or with its module; places and job services that no process runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.support import postgres as postgresql
from tests.support import s3 as buckets
from tests.support import swift as swift_servers
from tests.support.job_place import DATABASES, Place, places
from tests.support.job_service import Made, services
from tests.support.jobs import JobsParser, Start, VlmProcess
from tests.support.lent import lend
from tests.support.postgres import PostgresServer
from tests.support.s3 import BucketServer, S3Server
from tests.support.swift import SwiftServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One for all tests; each test has a database for itself."""
    yield from lend(PostgresServer, postgresql.MISSING)


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """That of an empty database."""
    with postgres.lent() as url:
        yield url


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """One for all tests; each test has a bucket of its own."""
    yield from lend(S3Server, buckets.MISSING)


@pytest.fixture(scope="session")
def swift() -> Iterator[SwiftServer]:
    """The same of a server that keeps objects in files and can be killed. Each of its answers takes longer."""
    yield from lend(SwiftServer, swift_servers.missing())


@pytest.fixture
def bucket(s3: BucketServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty place in a bucket, which this process can use."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    yield s3.bucket()
    s3.start_if_killed()


@pytest.fixture(params=DATABASES)
def open_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Makes places over one database and one data directory, or bucket where the test says `in_a_bucket_too`."""
    url = request.getfixturevalue("url") if "postgresql" in request.param else ""
    storage = request.getfixturevalue("bucket") if "bucket" in request.param else ""
    yield from places(tmp_path, url, storage)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def make_service(tmp_path: Path, registry: CollectorRegistry) -> Iterator[Made]:
    """Makes job services without HTTP over one data directory; what they count is in ``registry``."""
    yield from services(tmp_path, registry)


@pytest.fixture
def start(tmp_path: Path):
    starter = Start(tmp_path)
    yield starter
    starter.end()


@pytest.fixture(scope="session")
def _service(tmp_path_factory):
    starter = Start(tmp_path_factory.mktemp("service"))
    vlm = starter.vlm(0.05)
    yield starter.parser().wait(), vlm
    starter.end()


@pytest.fixture(scope="module")
def service(_service) -> tuple[JobsParser, VlmProcess]:
    """``(parser, vlm)``, with nothing at work when a module begins."""
    _service[0].wait_until_idle()
    return _service


@pytest.fixture
def parser(service) -> JobsParser:
    return service[0]


@pytest.fixture
def vlm(service) -> Iterator[VlmProcess]:
    yield service[1]
    for steering in ("refuse", "say"):
        (service[1].folder / steering).unlink(missing_ok=True)
