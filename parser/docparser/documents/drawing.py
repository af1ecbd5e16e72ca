# SPDX-License-Identifier: Apache-2.0
"""Draws one page of a document as a picture, for people who look at it before it is read."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from PIL import Image

from docparser.documents.limits import DocumentLimits
from docparser.documents.render_main import DocumentDecoder
from docparser.documents.spool import Document
from docparser.errors import JobNotFound

JPEG_QUALITY = 85


def draw(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """A job of a child process: writes a line of JSON with the document's ``pages``, then the page as JPEG.

    ``args``: ``path`` and ``format`` of the document, ``number`` of the page (from 1), ``limits`` (DocumentLimits).
    ``source`` is empty. Raises InvalidDocument, DocumentTooLarge; JobNotFound for a number beyond the last page.
    """
    decoder = DocumentDecoder(DocumentLimits(**args["limits"]))
    with Document(args["path"], args["format"]).opened() as document:
        count = decoder.count_pages(document)
        if not 1 <= args["number"] <= count:
            raise JobNotFound(f"page {args['number']}: the document has the pages 1 to {count}")
        pixels = decoder.read_page(document, args["number"] - 1).pixels
    sink.write(json.dumps({"pages": count}).encode() + b"\n")
    Image.fromarray(pixels[:, :, ::-1]).save(sink, "JPEG", quality=JPEG_QUALITY)
