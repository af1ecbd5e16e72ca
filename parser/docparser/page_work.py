# SPDX-License-Identifier: Apache-2.0
"""The tasks of a worker. Imported in worker processes only: it loads Paddle."""

from __future__ import annotations

import dataclasses
import json
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

from docparser.answer import docx_export, page_entry, pictures
from docparser.baton import Baton
from docparser.block_client import Cancelled, PageCalls
from docparser.document import DocumentReader
from docparser.errors import Abandoned, InvalidRequest, ParserError
from docparser.frozen_page import freeze, from_client, put_images_back, thaw
from docparser.limits import Limits
from docparser.pipeline import PagePipeline
from docparser.settings import Settings
from docparser.tasks import CountPages, JoinClientPages, JoinPages, ParsedPage, ParsePage, Task
from docparser.vlm_client import VlmClient


class PageWork:
    """``do`` is called from many threads; they take turns with the baton."""

    def __init__(self, settings: Settings, baton: Baton) -> None:
        self._max_side = settings.max_output_image_side
        self._reader = DocumentReader(Limits.of(settings))
        self._pipeline = PagePipeline(settings)
        self._pipeline.warm_up()
        self._baton = baton
        self._calls: dict[int, PageCalls] = {}
        self._lock = threading.Lock()
        self.pixels = 0  # of all pages in memory
        self._methods = {
            CountPages: lambda task: self._reader.count_pages(task.document),
            JoinPages: self._join_pages,
            JoinClientPages: self._join_client_pages,
        }

    @property
    def vlm(self) -> VlmClient:
        return self._pipeline.client.vlm

    def cancel(self, number: int) -> None:
        calls = self._calls.get(number)
        if calls is not None:
            calls.cancel()

    def do(self, number: int, task: Task, on_waiting: Callable[[], None]) -> Any:
        """The answer to ``task``; ``on_waiting`` is called whenever the CPU becomes free before it is there.

        Raises ParserError, Abandoned if the task was cancelled.
        """
        if not isinstance(task, ParsePage):
            with self._baton.held(number):
                return self._methods[type(task)](task)
        calls = self._calls[number] = PageCalls(number, f"{task.request_id}-p{task.index + 1}", self._baton, on_waiting)
        try:
            with self._baton.held(number):
                calls.check()
                return self._parse_page(task, calls)
        except ParserError:
            raise
        except Exception as exc:  # PaddleX's, too: the document's file may be gone, now that its request is
            if isinstance(exc, Cancelled) or calls.cancelled:
                raise Abandoned("Nobody waits for this page any more.") from None
            raise
        finally:
            del self._calls[number]

    def _parse_page(self, task: ParsePage, calls: PageCalls) -> ParsedPage:
        clock = _Clock()
        image = self._reader.read_page(task.document, task.index)
        clock.lap("read")
        height, width = image.shape[:2]
        self._hold(width * height)
        try:
            result, notes = self._pipeline.parse(image, task.options.predict, calls)
            clock.lap("parse")
            options = task.options.answer
            entry = pictures(result, image, max_side=self._max_side) if options.visualize else {}
            frozen = None
            if task.options.restructure is None:
                entry = page_entry(result, task.index + 1, options, max_side=self._max_side) | entry
            else:
                frozen = pickle.dumps(freeze(result))
            data = to_json(entry)
            clock.lap("write")
        finally:
            self._hold(-width * height)
        parse_s = clock.seconds.pop("parse")
        blocks_s = max(0.0, parse_s - calls.layout_s - calls.waited_s)
        clock.seconds |= {"layout": calls.layout_s, "vlm": calls.waited_s, "blocks": blocks_s}
        return ParsedPage(data, width, height, calls.answered, notes, clock.seconds, frozen)

    def _hold(self, pixels: int) -> None:
        with self._lock:
            self.pixels += pixels

    def _join_pages(self, task: JoinPages) -> list[bytes]:
        pages = [thaw(pickle.loads(frozen), index) for index, frozen in enumerate(task.frozen)]
        joined = self._pipeline.restructure(pages, task.restructure)
        return [
            to_json(page_entry(page, number, task.answer, max_side=self._max_side))
            for number, page in enumerate(joined, 1)
        ]

    def _join_client_pages(self, task: JoinClientPages) -> list[bytes]:
        images = [images for _, images in task.pages]
        if task.restructure.concatenate_pages:
            images = [{path: picture for page in images for path, picture in page.items()}]
        text_only = dataclasses.replace(task.answer, docx=False, markdown_images=False)
        try:
            pages = [from_client(pruned, index) for index, (pruned, _) in enumerate(task.pages)]
            joined = list(self._pipeline.restructure(pages, task.restructure))
            entries = [
                page_entry(page, number, text_only, max_side=self._max_side) for number, page in enumerate(joined, 1)
            ]
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
            raise InvalidRequest(
                f"pages: prunedResult is not that of an answer of /layout-parsing ({type(exc).__name__}: {exc})"
            ) from None
        for number, (entry, page, pictures_) in enumerate(zip(entries, joined, images, strict=True), 1):
            if task.answer.markdown_images and pictures_:
                entry["markdown"]["images"] = pictures_
            if task.answer.docx:
                put_images_back(page, pictures_)
                entry["exports"] = {"docx": docx_export(page, number)}
        return [to_json(entry) for entry in entries]


class _Clock:
    def __init__(self) -> None:
        self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = time.monotonic()
        self.seconds[stage] = now - self._last
        self._last = now


def to_json(entry: dict) -> bytes:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
