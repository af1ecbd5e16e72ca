# SPDX-License-Identifier: Apache-2.0
"""`report.json`: the files that were left out, and every document with its pages, outputs, missing and incomplete
pages, doubtful blocks, sources of the texts, and notes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bundle import files

from . import outputs
from .inputs import LeftOut
from .state import DocumentState


def write(out: Path, states: list[DocumentState], left_out: list[LeftOut]) -> None:
    """Write the report to the folder `out`."""
    documents = [
        {
            "document": str(state.document.name),
            "pages": state.count,
            "unread": state.unread,
            "complete": state.complete,
            "written": [name for name in state.written if outputs.file(state, name).is_file()],
            "trouble": [dataclasses.asdict(trouble) for trouble in state.trouble],
            "doubtful": [
                {"page": page, **dataclasses.asdict(doubt)} for page, found in state.doubts.items() for doubt in found
            ],
            "sources": dict(state.sources),
            "notes": [
                {"page": page, **dataclasses.asdict(note)} for page, found in state.notes.items() for note in found
            ],
        }
        for state in states
    ]
    others = [{"file": str(one.name), "reason": one.reason} for one in left_out]
    files.write_json(out / "report.json", {"documents": documents, "left_out": others})
