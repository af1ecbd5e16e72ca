# SPDX-License-Identifier: Apache-2.0
"""`report.json`: every document with its pages, what is missing or incomplete, and doubtful blocks."""

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
            "doubtful": [
                {"page": page, **dataclasses.asdict(doubt)} for page, found in state.doubts.items() for doubt in found
            ],
        }
        for state in states
    ]
    files.write_json(out / "report.json", {"documents": documents})
