# SPDX-License-Identifier: Apache-2.0
"""A document by chat completions: the Markdown of its pages in order, each as soon as all before it are there; and the
answers that hold it, in one piece and as server-sent events (OpenAI API: "The chat completion object", "The chat
completion chunk object")."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any

from docparser.contract.answers import Report
from docparser.contract.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChunkChoice,
    ChunkExtras,
    CompletionChoice,
    CompletionHead,
    Delta,
    FinishReason,
    TokenUsage,
)
from docparser.convert.names import PAGE_BREAK, writable
from docparser.errors import InternalError, ParserError, RequestTimeout
from docparser.outline import TITLES, as_printed
from docparser.parsing.document_pages import Early
from docparser.parsing.result import EMPTY_ENTRY, PageOutcome, ParseResult

HEARTBEAT_S = 10.0
Arrived = Callable[[PageOutcome], None]
Part = tuple[int, str]  # where it begins in its page's Markdown, in characters, and its text
Work = Callable[[Arrived, Early], Coroutine[Any, Any, ParseResult]]
STILL_READING = b": still reading\n\n"  # a comment: proxies keep the connection, and a client that left is noticed
DONE = b"data: [DONE]\n\n"


class PageText:
    """Its parts, joined, are the text of the whole page, as ``convert.formats`` writes it: without what is white at
    either end."""

    def __init__(self) -> None:
        self.given = ""  # all that was returned so far
        self._seen = 0  # characters of the page's Markdown
        self._white = ""  # at the end of what was seen: not to be given unless something follows

    def part(self, offset: int, text: str) -> str:
        """What may be shown of a part of the Markdown that begins at ``offset``, in characters. Of a page that was
        begun again, what was seen is passed over; ``rest`` tells whether it was the same."""
        if offset != self._seen:
            return ""
        self._seen += len(text)
        text = self._white + writable(text)
        text = text if self.given else text.lstrip()
        shown = text.rstrip()
        self._white = text[len(shown) :]
        self.given += shown
        return shown

    def rest(self, whole: str) -> str:
        """What is still to be shown of the page's whole text. Raises InternalError if it does not begin with what was
        given: the VLM may read a page that is begun again in another way."""
        if not whole.startswith(self.given):
            raise InternalError("A page was read twice, and the two differ; send the document again.")
        rest = whole[len(self.given) :]
        self.given = whole
        return rest


@dataclasses.dataclass(frozen=True)
class _End:
    """Of a page: its whole entry, and what the page ended with if it has none."""

    entry: bytes
    error: ParserError | None = None


class ChatReading:
    """Begins the work at once; ``close`` ends it and leaves nothing behind. Belongs to one event loop."""

    def __init__(self, work: Work, *, joined: bool, limit_s: float) -> None:
        """``joined``: pages have no text before all are there. ``limit_s``: the longest time for all pages."""
        self._parts: dict[int, list[Part]] = collections.defaultdict(list)
        self._ends: dict[int, _End] = {}
        self._sent = 0  # pages that are whole in the queue, from the first on
        self._begun = False
        self._any_text = False
        self._limit_s = limit_s
        self._deadline = asyncio.get_running_loop().time() + limit_s
        self._queue: asyncio.Queue[Part | _End | None] = asyncio.Queue()
        arrived = (lambda outcome: None) if joined else self._arrived
        self._task = asyncio.create_task(work(arrived, self._told))
        self._task.add_done_callback(lambda _: self._queue.put_nowait(None))

    def _told(self, index: int, offset: int, text: str) -> None:
        self._parts[index].append((offset, text))
        self._begun = True  # a worker tells nothing before the VLM has read a block
        self._release()

    def _arrived(self, outcome: PageOutcome) -> None:
        entry = outcome.parsed.entry if outcome.parsed else EMPTY_ENTRY
        self._ends[outcome.index] = _End(entry, outcome.error)
        # Until the VLM has read a block, the answer may become an error.
        self._begun = self._begun or (outcome.parsed is not None and outcome.parsed.blocks_answered > 0)
        self._release()

    def _release(self) -> None:
        while self._begun:
            for part in self._parts.pop(self._sent, ()):
                self._queue.put_nowait(part)
            if (end := self._ends.pop(self._sent, None)) is None:
                break
            self._queue.put_nowait(end)
            self._sent += 1

    async def texts(self) -> AsyncIterator[str]:
        """The text in parts, and "" after each HEARTBEAT_S without. Raises ParserError."""
        clock = asyncio.get_running_loop().time
        page = PageText()
        while True:
            try:
                async with asyncio.timeout_at(min(self._deadline, clock() + HEARTBEAT_S)):
                    news = await self._queue.get()
            except TimeoutError:
                if clock() >= self._deadline:
                    raise RequestTimeout(
                        f"The document was given up after {self._limit_s:.0f} s (PARSER_REQUEST_TIMEOUT_S)."
                    ) from None
                yield ""
                continue
            if news is None:
                break
            first = not page.given
            if isinstance(news, _End):
                text = page.rest(await self._whole(news, begun=not first))
                page = PageText()
            else:
                text = page.part(*news)
            if text:
                yield self._parted(text, first=first)
        for number, entry in enumerate(self.result.entries()):
            if number >= self._sent and (text := await self._whole(_End(entry), begun=False)):
                yield self._parted(text, first=True)

    async def _whole(self, end: _End, *, begun: bool) -> str:
        """A page's text. A page that fails is left out, but what was sent of it cannot be taken back."""
        if begun and end.error is not None:
            raise end.error
        return await asyncio.to_thread(_markdown, end.entry)

    def _parted(self, text: str, *, first: bool) -> str:
        """``text`` of a page, with what parts it from the pages before if it is the ``first`` of its page."""
        before = PAGE_BREAK if first and self._any_text else ""
        self._any_text = True
        return before + text

    @property
    def result(self) -> ParseResult:
        """Once ``texts`` has ended. Raises ParserError."""
        return self._task.result()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if not self._task.cancelled() and self._task.exception() is None:
            self._task.result().close()


def _markdown(entry: bytes) -> str:
    """As ``convert.formats`` writes it, with PaddleX's levels: the document's outline is not known before its end."""
    page = json.loads(entry)
    titled = (page.get("prunedResult") or {}).get("parsing_res_list") or ()
    titles = ((block["block_content"], None) for block in titled if block["block_label"] in TITLES)
    return writable(as_printed(page["markdown"]["text"], titles)).strip()


def event(content: Mapping[str, Any]) -> bytes:
    return (
        b"data: " + json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n\n"
    )


def blocks(text: str) -> Iterator[str]:
    """``text`` in pieces, each with the blank lines before it: PaddleX writes one between two blocks."""
    start = 0
    for gap in re.finditer(r"\n{2,}", text):
        if gap.start() > start:
            yield text[start : gap.start()]
            start = gap.start()
    if text:
        yield text[start:]


class Completion:
    """One answer of ``model``; all its chunks have one id."""

    def __init__(self, model: str) -> None:
        self._head: CompletionHead = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, text: str, result: ParseResult, report: Report) -> ChatCompletion:
        """``report`` is ``docparser`` of /layout-parsing."""
        choice: CompletionChoice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": finish_reason(report),
        }
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage(result.tokens),
            "docparser": report,
        }

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    async def texts(self, first: str, others: AsyncIterator[str]) -> AsyncIterator[bytes]:
        """A chunk for each block; a comment where ``others`` has no text yet."""
        for piece in blocks(first):
            yield self._chunk({"content": piece})
        async for text in others:
            if not text:
                yield STILL_READING
            for piece in blocks(text):
                yield self._chunk({"content": piece})

    def end(self, result: ParseResult, report: Report, *, with_usage: bool) -> bytes:
        last = self._chunk({}, finish_reason(report), {"docparser": report})
        if with_usage:
            last += self._chunk(None, more={"usage": usage(result.tokens)})
        return last + DONE

    def _chunk(self, delta: Delta | None, reason: FinishReason | None = None, more: ChunkExtras | None = None) -> bytes:
        choices: list[ChunkChoice] = []
        if delta is not None:
            choices.append({"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason})
        chunk: ChatCompletionChunk = {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": choices,
            **(more or {}),
        }
        return event(chunk)


def finish_reason(report: Report) -> FinishReason:
    """``length`` if the VLM's text of a block was cut at a limit."""
    notes = [note for page in report["pages"] for note in page.get("blocks", ())]
    return "length" if any(note["kind"] == "length" for note in notes) else "stop"


def usage(tokens: tuple[int, int]) -> TokenUsage:
    prompt, completion = tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
