# SPDX-License-Identifier: Apache-2.0
"""A conversion as a job of a child process: an answer of the service in, the document in another format out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

from docparser.convert.document import ResultDocument
from docparser.convert.formats import write


def convert_answer(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """``args``: ``name`` of the document's file, and ``format``.

    ``source``: JSON with the ``result`` of an answer; where its pictures are keys of files, also with ``files``: their
    paths by these keys.
    """
    answer = json.load(source)
    if "files" in answer:
        files = {key: Path(path) for key, path in answer["files"].items()}
        document = ResultDocument.from_files(args["name"], answer["result"], files)
    else:
        document = ResultDocument.from_answer(args["name"], answer["result"])
    write(document, args["format"], sink)
