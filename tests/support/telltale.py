# SPDX-License-Identifier: Apache-2.0
"""Packages that come first on the path and leave a file when somebody loads them."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.processes import PYTHONPATH


def telltale(folder: Path, *packages: str) -> tuple[str, Path]:
    """The PYTHONPATH for a process that should load none of `packages`, and the file that is there once it has."""
    loaded = folder / "loaded"
    for name in packages:
        first = folder.joinpath("first", *name.split("."))
        first.mkdir(parents=True)
        (first / "__init__.py").write_text(f"open({str(loaded)!r}, 'a').close()\nraise ImportError('not here')\n")
    return os.pathsep.join((str(folder / "first"), PYTHONPATH)), loaded


OPENTELEMETRY = "opentelemetry.sdk", "opentelemetry.exporter"  # FastAPI itself imports the interface beside them
