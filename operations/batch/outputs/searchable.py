# SPDX-License-Identifier: Apache-2.0
"""The document as a PDF that can be searched, as the service writes it (docparser.convert)."""

from __future__ import annotations

from pathlib import Path

from docparser.convert.document import Source
from docparser.convert.searchable_pdf import write as write_pdf

from .. import files
from ..pages import kind
from ..state import DocumentState, Trouble


def write(state: DocumentState, path: Path) -> bool:
    """A page that is missing in the results stays, without text. Raises UneditablePdf."""
    records = (
        (record.page, {}) if isinstance(record, Trouble) else (record["page"], record["prunedResult"])
        for record in state.records()
    )
    with files.whole(path) as part, part.open("wb") as stream:
        write_pdf(Source(state.document.path, kind(state.document.path)), records, stream)
    return True
