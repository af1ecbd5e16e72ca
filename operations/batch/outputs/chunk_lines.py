# SPDX-License-Identifier: Apache-2.0
"""A document in chunks for retrieval, as the service writes them (docparser.convert)."""

from __future__ import annotations

from pathlib import Path

from docparser.convert.chunks import write as write_chunks
from docparser.convert.format_names import DEFAULT_TOKENS

from .. import files
from ..state import DocumentState, Trouble
from .pages import outline_of_records


def write(state: DocumentState, path: Path) -> bool:
    entries = ((record["page"], record) for record in state.records() if not isinstance(record, Trouble))
    with files.whole(path) as part, part.open("wb") as stream:
        write_chunks(
            state.document.path.stem, entries, DEFAULT_TOKENS, state.joins_tables, stream, outline_of_records(state)
        )
    return True
