# SPDX-License-Identifier: Apache-2.0
"""A renderer: the process in which the decoders of PDFs and images run. ``renderer`` holds its other end.

Some kilobytes can keep a decoder busy for hours, and no decoder lets itself be interrupted (decision 0213). This
process can be killed: it holds nothing but open documents. It loads no Paddle, gets none of the service's secrets, and
reaches nothing but its libraries and the documents that it is handed (``isolation``).

It says ``{}`` when it is ready. A message on its socket is a request, with the document as a descriptor: ``{"format",
"index", "own_text"}``, where ``index`` counts from 0 and null asks for the number of pages. On stdout it answers with
a line, ``{"count"}``, ``{"error", "message"}`` or ``{"height", "width", "notes", "text"}``, and after the last one with
the page's ``height * width * 3`` bytes, blue first, and the ``text`` bytes of its characters
(``own_text.characters``).
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import sys
import traceback
from pathlib import Path

from bounded_child import bound, bound_cpu, confine, end_with_parent
from docparser.documents.decoder import DocumentDecoder
from docparser.documents.page import DocumentLimits, Page
from docparser.documents.spool import OpenDocument
from docparser.errors import InternalError, ParserError
from isolation import isolate

PACKAGE = Path(__file__).parents[1]
LONGEST_REQUEST = 1 << 12
LOOK_S = 30.0  # an idle renderer keeps deleted documents open, and so on the disk, for so long
GRACE_S = 5  # the service ends a renderer at its limit; this later limit is for a service that is stuck or gone


def main() -> None:
    limits = DocumentLimits(**json.loads(sys.argv[1]))
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints goes to the log
    requests = socket.socket(fileno=0)
    requests.settimeout(LOOK_S)
    bound(resource.RLIMIT_DATA, limits.render_memory_mib << 20, final=True)
    confine(oom_score=800)
    isolate([PACKAGE])
    end_with_parent(os.getppid())
    decoder = DocumentDecoder(limits)
    _write(answers, b"{}\n")
    while True:
        try:
            message, files, _, _ = socket.recv_fds(requests, LONGEST_REQUEST, 1)
        except TimeoutError:
            decoder.close_deleted()
            continue
        if not message:
            return
        decoder.close_deleted()
        request = json.loads(message)
        bound_cpu(limits.render_timeout_s + GRACE_S)
        answer, page = _answer(decoder, OpenDocument(files[0], request["format"]), request)
        text = page.characters.to_bytes() if page is not None and page.characters is not None else b""
        os.close(files[0])
        with contextlib.suppress(BrokenPipeError):  # the worker is gone; the next read says so
            _write(answers, json.dumps(answer | {"text": len(text)}).encode() + b"\n")
            if page is not None:
                _write(answers, page.pixels.data)
                _write(answers, text)
        del page, text


def _answer(decoder: DocumentDecoder, document: OpenDocument, request: dict) -> tuple[dict, Page | None]:
    try:
        if request["index"] is None:
            return {"count": decoder.count_pages(document)}, None
        page = decoder.read_page(document, request["index"], own_text=request["own_text"])
        height, width = page.pixels.shape[:2]
        return {"height": height, "width": width, "notes": page.notes}, page
    except ParserError as exc:
        return {"error": type(exc).__name__, "message": str(exc)}, None
    except MemoryError:
        return {"error": "MemoryError", "message": ""}, None
    except Exception:
        traceback.print_exc()
        return {"error": "InternalError", "message": InternalError.on_a_page}, None


def _write(file: int, data: bytes | memoryview) -> None:
    left = memoryview(data).cast("B")
    while left:
        left = left[os.write(file, left) :]


if __name__ == "__main__":
    main()
