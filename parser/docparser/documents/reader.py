# SPDX-License-Identifier: Apache-2.0
"""Reads documents for a worker, in renderers that are killed when a page takes too long or nobody waits for it.

A page that is not read after ``SLOW_S`` steps aside: its renderer goes on at low priority, and the caller is told, so
that it can let other pages go first. Another renderer reads the other pages.

``python -m docparser.documents.reader FORMAT=PATH ...`` tells whether files can be read, before a service starts. It
prints {path: pages} as JSON; it ends with status 2 and one line on stderr at the first file that cannot be read.
Pictures are decoded to their end, the pages of PDFs are counted.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import threading
from collections.abc import Callable

import numpy as np

from docparser import errors
from docparser.documents.page import DocumentLimits, Page
from docparser.documents.renderer import Renderer, RendererEnded
from docparser.documents.spool import Document, OpenDocument
from docparser.errors import (
    Abandoned,
    DocumentTooLarge,
    DocumentTooSlow,
    InternalError,
    InvalidDocument,
    PageTimeout,
    ParserError,
)
from docparser.own_text.characters import Characters

log = logging.getLogger(__name__)

SLOW_S = 2.0  # seconds of CPU time; pages of real documents take 0.02 to 1
WALL_FACTOR = 10  # limit by the clock, in limits of CPU time: for a decoder that hangs or gets hardly any CPU
LEAST_WALL_S = 60.0
CHECK_S = 0.1
MOST_KEPT_MIB = 192  # memory of an idle renderer; with real documents open it holds 20 to 100 MiB


def _what(index: int | None) -> str:
    """What a renderer does, in words."""
    return "opening the document" if index is None else f"page {index + 1}"


@dataclasses.dataclass(frozen=True)
class Reading:
    """How a document is read. ``apart``: at low priority from the beginning. ``on_slow`` is called once, when the
    document turns out to be slow. ``cancelled`` is asked now and then."""

    apart: bool = False
    on_slow: Callable[[], None] = lambda: None
    cancelled: Callable[[], bool] = lambda: False


class DocumentReader:
    """Any thread may call any method."""

    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self._slow_s = min(SLOW_S, limits.render_timeout_s / 4)
        self._lock = threading.Lock()
        self._idle: dict[bool, Renderer] = {False: Renderer(limits)}  # by whether it is apart

    def count_pages(self, document: Document, reading: Reading | None = None) -> int:
        """Raises InvalidDocument; DocumentTooLarge, also for a document with too many pages; DocumentTooSlow;
        PageTimeout; Abandoned."""
        with document.opened() as opened:
            answer, _, _ = self._read(opened, None, reading or Reading())
        return int(answer["count"])

    def read_page(
        self, document: Document, index: int, reading: Reading | None = None, *, own_text: bool = False
    ) -> Page:
        """Page ``index`` (from 0); ``own_text``: of a PDF, with the characters of its own text. Raises as above."""
        with document.opened() as opened:
            answer, pixels, characters = self._read(opened, index, reading or Reading(), own_text=own_text)
        assert pixels is not None, "a renderer answers with pixels or an error"
        return Page(pixels, answer["notes"], characters)

    def close(self) -> None:
        with self._lock:
            while self._idle:
                self._idle.popitem()[1].kill()

    def _read(
        self, document: OpenDocument, index: int | None, reading: Reading, *, own_text: bool = False
    ) -> tuple[dict, np.ndarray | None, Characters | None]:
        what = _what(index)
        renderer = self._take(reading.apart)
        try:
            try:
                characters = self._ask(renderer, document, index, reading, own_text)
            except RendererEnded:
                if renderer.apart != reading.apart or renderer.cpu_s > self._slow_s:
                    raise
                renderer.kill()  # and once more: the kernel may have wanted its memory for something else
                renderer = self._take(reading.apart)
                characters = self._ask(renderer, document, index, reading, own_text)
        except RendererEnded as exc:
            renderer.kill()
            if str(exc) == "SIGXCPU":
                raise self._too_slow(what) from None
            raise InvalidDocument(
                f"file: {what} ended the process that read it ({exc}); the document is damaged, or it needs more "
                f"than {self._limits.render_memory_mib} MiB of memory (PARSER_RENDER_MEMORY_MIB)"
            ) from None
        except BaseException:
            renderer.kill()
            raise
        answer, pixels = renderer.answer, renderer.pixels
        self._keep(renderer)
        if "error" in answer:
            raise self._error(answer, what)
        return answer, pixels, characters

    def _ask(
        self, renderer: Renderer, document: OpenDocument, index: int | None, reading: Reading, own_text: bool
    ) -> Characters | None:
        renderer.ask(document, index, own_text=own_text)
        self._wait(renderer, reading, _what(index))
        return renderer.characters

    def _take(self, apart: bool) -> Renderer:
        with self._lock:
            renderer = self._idle.pop(apart, None)
        if renderer is None:
            renderer = Renderer(self._limits)
            if apart:
                renderer.step_aside()
        return renderer

    def _keep(self, renderer: Renderer) -> None:
        """Keep the renderer and its open documents for the next page. Drop it if one is already kept, or if it holds
        too much memory."""
        if renderer.memory_mib > MOST_KEPT_MIB:
            renderer.kill()
            return
        with self._lock:
            kept = self._idle.setdefault(renderer.apart, renderer)
        if kept is not renderer:
            renderer.kill()

    def _wait(self, renderer: Renderer, reading: Reading, what: str) -> None:
        told, limit_s = False, self._limits.render_timeout_s
        most_s = max(LEAST_WALL_S, WALL_FACTOR * limit_s)
        while not renderer.pump(CHECK_S):
            cpu_s, wall_s = renderer.cpu_s, renderer.wall_s
            if reading.cancelled():
                raise Abandoned("Nobody waits for this page any more.")
            if cpu_s > limit_s:
                raise self._too_slow(what)
            if wall_s > most_s:
                words = f"file: {what} was given up after {most_s:g} s by the clock, in which the decoder got "
                words += f"{cpu_s:.1f} s of CPU time; the machine is too busy, or was paused; send it again"
                log.warning("%s", words)
                raise PageTimeout(words)
            if not told and (cpu_s > self._slow_s or wall_s > max(WALL_FACTOR * self._slow_s, LEAST_WALL_S / 3)):
                told = True
                if not renderer.apart:
                    renderer.step_aside()
                    self._keep(Renderer(self._limits))  # starts while this one goes on
                reading.on_slow()

    def _too_slow(self, what: str) -> DocumentTooSlow:
        limit_s = self._limits.render_timeout_s
        words = f"file: {what} was given up after {limit_s:g} s of CPU time in the decoder (PARSER_RENDER_TIMEOUT_S)"
        log.warning("%s", words)
        return DocumentTooSlow(words)

    def _error(self, answer: dict, what: str) -> ParserError:
        if answer["error"] == "MemoryError":
            return DocumentTooLarge(
                f"file: {what} needs more than {self._limits.render_memory_mib} MiB of memory "
                "(PARSER_RENDER_MEMORY_MIB)"
            )
        kind = getattr(errors, str(answer["error"]), None)
        if kind in (InvalidDocument, DocumentTooLarge):
            return kind(str(answer["message"]))
        return InternalError(str(answer.get("message", "")))


def main(words: list[str]) -> int:
    from docparser.settings import Settings  # a service gives a reader its limits

    reader, pages = DocumentReader(DocumentLimits.of(Settings())), {}
    try:
        for word in words:
            format, _, path = word.partition("=")
            document = Document(path, format)
            try:
                pages[path] = reader.count_pages(document)
                for index in range(0 if format == "PDF" else pages[path]):
                    reader.read_page(document, index)
            except ParserError as error:
                print(f"{path}: {str(error).removeprefix('file: ')}", file=sys.stderr)
                return 2
    finally:
        reader.close()
    print(json.dumps(pages))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
