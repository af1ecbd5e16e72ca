# SPDX-License-Identifier: Apache-2.0
"""A conversion as a job of a child process: an answer of the service in, the document in another format out."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, BinaryIO

from docparser.convert.document import ResultDocument, Source
from docparser.convert.format_names import How
from docparser.convert.formats import write
from docparser.convert.searchable_pdf import UneditablePdf
from docparser.errors import UnreadableText


def convert_answer(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """``args``: ``name`` of the document's file, ``format``, ``how`` (fields of How), and ``source`` (its path and
    format).

    ``source``: JSON with the ``result`` of an answer; where its pictures are keys of files, also with ``files``: their
    paths by these keys; where not all pages are there, with ``numbers``. Raises UnreadableText.
    """
    answer = json.load(source)
    if "files" in answer:
        files = {key: Path(path) for key, path in answer["files"].items()}
        document = ResultDocument.from_files(args["name"], answer["result"], files)
    else:
        document = ResultDocument.from_answer(args["name"], answer["result"])
    path, format = args["source"]
    document = dataclasses.replace(document, source=Source(Path(path), format), numbers=answer.get("numbers"))
    try:
        write(document, args["format"], sink, How(**args["how"]))
    except UneditablePdf as exc:
        raise UnreadableText(f"format: no text can be put into this document ({exc}); ask for another format") from None
