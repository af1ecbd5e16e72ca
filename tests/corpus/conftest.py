# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the corpus tool, whose tests run in the environment `corpus`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corpus.job import Job
from tests.support import s3 as buckets
from tests.support import swift as swift_servers
from tests.support.lent import lend
from tests.support.s3 import S3Server
from tests.support.simulated_vlm import SimulatedVlm
from tests.support.swift import SwiftServer
from tests.tools.calls import call

Parse = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    yield from lend(S3Server, buckets.MISSING)


@pytest.fixture(scope="session")
def swift() -> Iterator[SwiftServer]:
    yield from lend(SwiftServer, swift_servers.missing())


@pytest.fixture
def vlms() -> Iterator[list[SimulatedVlm]]:
    """Two VLM servers that read nothing."""
    servers = [SimulatedVlm(), SimulatedVlm()]
    yield servers
    for server in servers:
        server.close()


@pytest.fixture
def parse(tmp_path: Path, vlms: list[SimulatedVlm]) -> Parse:
    """scripts/parse_corpus.py from ``in`` to ``out``, on Ray in the tool's own processes, with both VLM servers."""

    def run(*words: object, source: object = "in", out: object = "out", **env: str) -> subprocess.CompletedProcess[str]:
        servers = [word for vlm in vlms for word in ("--vlm-url", vlm.url)]
        return call("parse_corpus.py", source, "--out", out, "--cpus", 2, *servers, *words, cwd=tmp_path, env=env)

    return run


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "in").mkdir()
    return Job(str(tmp_path / "in"), str(tmp_path / "out"), ("http://a/v1",), {}, {}, ("md",), {}, False, 2, 5.0, 1)


def asked(vlms: list[SimulatedVlm]) -> int:
    """How many blocks the servers were asked for, the tiny image left out."""
    return sum(len(vlm.requests) for vlm in vlms)
