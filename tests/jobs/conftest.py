# SPDX-License-Identifier: Apache-2.0
"""Fixtures: processes that end with the test, or with its module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.job_place import Place
from tests.support.jobs import JobsParser, Start, VlmProcess
from tests.support.postgres import MISSING, PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One for all tests; each test has a database of its own."""
    if MISSING:
        pytest.skip(MISSING)
    server = PostgresServer()
    yield server
    server.end()


@pytest.fixture(params=["sqlite", "postgresql"])
def open_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Makes places over one data directory and one database, of the kind that the test runs with."""
    url = request.getfixturevalue("postgres").database() if request.param == "postgresql" else ""
    opened: list[Place] = []

    def make(**limits: int) -> Place:
        opened.append(Place(tmp_path, url=url, **limits))
        return opened[-1]

    yield make
    for place in opened:
        place.die()


@pytest.fixture
def start(tmp_path: Path):
    starter = Start(tmp_path)
    yield starter
    starter.end()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """``(parser, vlm)`` that the tests of a module share."""
    starter = Start(tmp_path_factory.mktemp("service"))
    vlm = starter.vlm(0.05)
    yield starter.parser().wait(), vlm
    starter.end()


@pytest.fixture
def parser(service) -> JobsParser:
    return service[0]


@pytest.fixture
def vlm(service) -> Iterator[VlmProcess]:
    yield service[1]
    (service[1].folder / "refuse").unlink(missing_ok=True)
