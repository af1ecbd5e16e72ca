# SPDX-License-Identifier: Apache-2.0
"""Fixtures: processes that end with the test, or with its module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.jobs import JobsParser, Start, VlmProcess


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
