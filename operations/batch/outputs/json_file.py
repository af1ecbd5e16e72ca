# SPDX-License-Identifier: Apache-2.0
"""JSON of a whole document: the parser's answers, written page by page, so that none but one is in memory."""

from __future__ import annotations

import json
from pathlib import Path

from .. import files
from ..state import DocumentState, Trouble


def write(state: DocumentState, path: Path) -> bool:
    head = {"file": state.document.path.name, "numPages": state.count}
    with files.whole(path) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "pages": [')
        for number, record in enumerate(state.records()):
            if isinstance(record, Trouble):
                record = {"page": record.page, "error": record.reason}
            stream.write((",\n" if number else "\n") + json.dumps(record, ensure_ascii=False))
        stream.write("\n]}\n")
    return True
