# SPDX-License-Identifier: Apache-2.0
"""`report.json`: every document with its pages, and what is missing or incomplete."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from . import files
from .state import DocumentState


def write(out: Path, states: list[DocumentState]) -> None:
    """Write the report to the folder `out`."""
    documents = [
        {
            "document": str(state.document.name),
            "pages": state.count,
            "written": state.written,
            "trouble": [dataclasses.asdict(trouble) for trouble in state.trouble],
        }
        for state in states
    ]
    files.write_json(out / "report.json", {"documents": documents})
