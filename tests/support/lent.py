# SPDX-License-Identifier: Apache-2.0
"""Servers that fixtures lend to tests, and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import pytest


class Server(Protocol):
    def end(self) -> None: ...


S = TypeVar("S", bound=Server)


def lend(make: Callable[[], S], missing: str) -> Iterator[S]:
    """A server, ended at the end; the test is skipped where something is ``missing`` that it needs, "" for nothing."""
    if missing:
        pytest.skip(missing)
    server = make()
    try:
        yield server
    finally:
        server.end()
