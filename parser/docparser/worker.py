# SPDX-License-Identifier: Apache-2.0
"""A worker process: loads the pipeline once, then does one task after the other.

Documents are opened and pages are decoded here and not in the service's own process, so that a file that crashes a
decoder costs one worker, which is replaced.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from docparser import offline
from docparser.errors import InternalError, InvalidRequest, ParserError
from docparser.limits import Limits
from docparser.logs import configure_logging
from docparser.settings import Settings
from docparser.tasks import CountPages, JoinClientPages, JoinPages, ParsedPage, ParsePage, Task

log = logging.getLogger(__name__)

READY = "ready"


def main(connection: Connection, settings: Settings) -> None:
    """Entry point of the process. Sends READY or the error that prevents it, then one answer per task.

    An answer is ``(True, value)`` or ``(False, ParserError)``. Ends when the other side closes the pipe.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the service ends its workers
    configure_logging(settings.log_level)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    offline.prepare(settings)
    try:
        worker = Worker(settings)
    except ParserError as exc:
        connection.send((False, exc))
        return
    connection.send((True, READY))
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            break
        connection.send(worker.answer(task))
    worker.close()


def _end_with(parent: int) -> None:
    """Ends with the service, even one that was killed: a busy worker would not see the closed pipe for minutes."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


class Worker:
    def __init__(self, settings: Settings) -> None:
        # Not at the top: offline.prepare must come first.
        from docparser.document import DocumentReader
        from docparser.pipeline import PagePipeline

        self._max_side = settings.max_output_image_side
        self._reader = DocumentReader(Limits.of(settings))
        self._pipeline = PagePipeline(settings)
        self._pipeline.warm_up()
        self._methods = {
            CountPages: self._count_pages,
            ParsePage: self._parse_page,
            JoinPages: self._join_pages,
            JoinClientPages: self._join_client_pages,
        }

    def close(self) -> None:
        self._reader.close()

    def answer(self, task: Task) -> tuple[bool, Any]:
        try:
            return True, self._methods[type(task)](task)
        except ParserError as exc:
            return False, exc
        except Exception:
            log.exception("%s failed", type(task).__name__)
            return False, InternalError("The parser failed on this page; the operator finds the details in its log.")

    def _count_pages(self, task: CountPages) -> int:
        return self._reader.count_pages(task.document)

    def _parse_page(self, task: ParsePage) -> ParsedPage:
        from docparser.answer import page_entry, pictures
        from docparser.frozen_page import freeze

        started = time.monotonic()
        image = self._reader.read_page(task.document, task.index)
        result, failures, answered = self._pipeline.parse(image, task.options.predict)
        options = task.options.answer
        entry = pictures(result, image, max_side=self._max_side) if options.visualize else {}
        if task.options.restructure is None:
            entry = page_entry(result, task.index + 1, options, max_side=self._max_side) | entry
            frozen = None
        else:
            frozen = freeze(result)
        height, width = image.shape[:2]
        log.debug(
            "page %d: %.2f s, %d blocks read, %d not",
            task.index + 1,
            time.monotonic() - started,
            answered,
            len(failures),
        )
        return ParsedPage(entry, width, height, answered, failures, frozen)

    def _join_pages(self, task: JoinPages) -> list[dict]:
        from docparser.answer import page_entry
        from docparser.frozen_page import thaw

        pages = [thaw(frozen, index) for index, frozen in enumerate(task.frozen)]
        joined = self._pipeline.restructure(pages, task.restructure)
        return [page_entry(page, number, task.answer, max_side=self._max_side) for number, page in enumerate(joined, 1)]

    def _join_client_pages(self, task: JoinClientPages) -> list[dict]:
        from docparser.answer import docx_export, page_entry
        from docparser.frozen_page import from_client, put_images_back

        images = [images for _, images in task.pages]
        if task.restructure.concatenate_pages:
            images = [{path: picture for page in images for path, picture in page.items()}]
        text_only = dataclasses.replace(task.answer, docx=False, markdown_images=False)
        try:
            pages = [from_client(pruned, index) for index, (pruned, _) in enumerate(task.pages)]
            joined = self._pipeline.restructure(pages, task.restructure)
            entries = [
                page_entry(page, number, text_only, max_side=self._max_side) for number, page in enumerate(joined, 1)
            ]
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
            raise InvalidRequest(
                f"pages: prunedResult is not that of an answer of /layout-parsing ({type(exc).__name__}: {exc})"
            ) from None
        for number, (entry, page, pictures) in enumerate(zip(entries, joined, images, strict=True), 1):
            if task.answer.markdown_images and pictures:
                entry["markdown"]["images"] = pictures
            if task.answer.docx:
                put_images_back(page, pictures)
                entry["exports"] = {"docx": docx_export(page, number)}
        return entries
