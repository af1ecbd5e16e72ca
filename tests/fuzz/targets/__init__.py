# SPDX-License-Identifier: Apache-2.0
"""The families of code that strangers' bytes or texts reach. A module for each: `target(data)` reads one input, catches
the errors that the code may raise, and raises `Broken` where a property does not hold; `seeds()` are inputs to begin
with."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

FAMILIES = (
    "pictures",
    "pdf",
    "videos",
    "options",
    "vlm_answers",
    "own_texts",
    "word_places",
    "whole_pages",
    "markdown",
    "tables",
    "places",
    "formulas",
    "identifiers",
    "operator_files",
)


class Family(Protocol):
    """What a module of this package has."""

    def target(self, data: bytes) -> None: ...

    def seeds(self) -> list[bytes]: ...


def load(name: str) -> Family:
    """The family of that name; raises ValueError for a name that is none."""
    if name not in FAMILIES:
        raise ValueError(f"no family {name!r}; expected one of {', '.join(FAMILIES)}")
    return cast(Family, importlib.import_module(f"tests.fuzz.targets.{name}"))
