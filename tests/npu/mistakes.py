# SPDX-License-Identifier: Apache-2.0
"""Modules with a mistake made on purpose, which the comparisons must find."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest


def with_mistake(right: types.ModuleType, old: str, new: str) -> types.ModuleType:
    """A module with one text replaced; it must be there, else the mistake tests nothing."""
    assert right.__file__
    source = Path(right.__file__).read_text()
    assert old in source, f"{old!r} is not in {right.__name__} any more"
    broken = types.ModuleType(f"{right.__name__}_with_mistake")
    broken.__package__ = right.__package__
    with pytest.MonkeyPatch.context() as patches:
        # Data classes look their module up.
        patches.setitem(sys.modules, broken.__name__, broken)
        exec(compile(source.replace(old, new), right.__name__, "exec"), broken.__dict__)
    return broken
