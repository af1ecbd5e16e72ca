# SPDX-License-Identifier: Apache-2.0
"""A renderer: the process in which the decoders of PDFs and images run. ``renderer`` holds its other end.

Some kilobytes can keep a decoder busy for hours, and no decoder lets itself be interrupted (decision 0213). This
process can be killed: it holds nothing but open documents. It loads no Paddle and gets none of the service's secrets.

It says ``{}`` when it is ready. It reads one request a line: ``{"path", "format", "index"}``, where ``index`` counts
from 0 and null asks for the number of pages. It answers ``{"count"}``, ``{"error", "message"}``, or ``{"height",
"width"}``, as a line, and after the last one the page's ``height * width * 3`` bytes, blue first.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import threading
import time
import traceback

import numpy as np

from docparser.documents.images import count_frames, read_frame
from docparser.documents.limits import DocumentLimits
from docparser.documents.pdf import PdfReader
from docparser.documents.spool import Document
from docparser.errors import DocumentTooLarge, ParserError

FAILED = "The parser failed on this page; the operator finds the details in its log."
GRACE_S = (
    5  # the service ends a renderer at the limit; this process itself only later, when the service is stuck or gone
)


class DocumentDecoder:
    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self._pdf = PdfReader()

    def count_pages(self, document: Document) -> int:
        """Raises InvalidDocument; DocumentTooLarge, also for a document with too many pages."""
        is_pdf = document.format == "PDF"
        count = self._pdf.count_pages(document) if is_pdf else count_frames(document, self._limits)
        if count > self._limits.max_pages:
            raise DocumentTooLarge(
                f"file: the document has {count} pages or more; at most {self._limits.max_pages} are allowed "
                "(PARSER_MAX_PAGES)"
            )
        return count

    def read_page(self, document: Document, index: int) -> np.ndarray:
        """Page ``index`` (from 0) as uint8 ``[height, width, 3]``, blue first. Raises as above."""
        if document.format == "PDF":
            return self._pdf.read_page(document, index, self._limits)
        return read_frame(document, index, self._limits)


def main() -> None:
    limits = DocumentLimits(**json.loads(sys.argv[1]))
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints goes to the log
    _bound_memory(limits.render_memory_mib << 20)
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    decoder = DocumentDecoder(limits)
    _write(answers, b"{}\n")
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _bound_cpu(time.process_time() + limits.render_timeout_s + GRACE_S)
        answer, pixels = _answer(decoder, Document(request["path"], request["format"]), request["index"])
        with contextlib.suppress(BrokenPipeError):  # the worker is gone; the next read says so
            _write(answers, json.dumps(answer).encode() + b"\n")
            if pixels is not None:
                _write(answers, pixels.data)
        del pixels


def _answer(decoder: DocumentDecoder, document: Document, index: int | None) -> tuple[dict, np.ndarray | None]:
    try:
        if index is None:
            return {"count": decoder.count_pages(document)}, None
        pixels = decoder.read_page(document, index)
        return {"height": pixels.shape[0], "width": pixels.shape[1]}, pixels
    except ParserError as exc:
        return {"error": type(exc).__name__, "message": str(exc)}, None
    except MemoryError:
        return {"error": "MemoryError", "message": ""}, None
    except Exception:
        traceback.print_exc()
        return {"error": "InternalError", "message": FAILED}, None


def _write(file: int, data: bytes | memoryview) -> None:
    left = memoryview(data).cast("B")
    while left:
        left = left[os.write(file, left) :]


def _bound_memory(size: int) -> None:
    """At most ``size`` bytes of data; and where the machine's memory ends, the kernel ends a renderer first."""
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("800")


def _bound_cpu(seconds: float) -> None:
    """SIGXCPU ends the process once it has used ``seconds`` of CPU time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _exit_with_parent(parent: int) -> None:
    """End with the worker, also in the middle of a page."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main()
