# SPDX-License-Identifier: Apache-2.0
"""Calls of the VLM server: pooled connections, a bounded number in flight, retries, and a guard against runaway text."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import time
import uuid
from collections import Counter
from typing import Any

import aiohttp

from docparser.call_limit import CallLimit
from docparser.errors import VlmUnavailable
from docparser.repetition import TABLE_LEAST, TEXT_LEAST, cut_repetition, repeated_tail
from docparser.settings import Settings
from docparser.vlm_reply import NotACompletion, Stream, error_text, from_json

log = logging.getLogger(__name__)

NOT_OURS = (401, 403, 404)  # a key or a model name is wrong: no block will do better
TRIES = 3  # of a call that the server breaks on
TIMED_OUT_TRIES = 2
LOST_TRIES = 6  # of a call whose connection breaks, while others are answered
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.3, 2.0
CHECK_EVERY = 200  # characters between two looks for a repetition
# For a block that ran into a loop: the same words must become less likely (vLLM's sampling parameters).
OTHER_SAMPLING = {"temperature": 0.3, "top_p": 0.95, "repetition_penalty": 1.15}


@dataclasses.dataclass(frozen=True)
class Reply:
    """``note``: None, or why the text is missing or not whole; see ``BlockNote``."""

    text: str
    note: BlockNote | None = None


@dataclasses.dataclass(frozen=True)
class BlockNote:
    """``kind``: ``refused`` (the VLM called the request bad), ``failed`` (it broke on it), ``timeout``: no text;
    ``repetition``, ``length``: the text was cut."""

    kind: str
    message: str

    @property
    def has_text(self) -> bool:
        return self.kind in ("repetition", "length")


class _Refused(Exception):
    """The server called the request bad, in these words."""


class _TryAgain(Exception):
    """Carries the note that stays if it was the last try."""

    def __init__(self, note: BlockNote, pause_s: float | None = None) -> None:
        self.note, self.pause_s = note, pause_s


class VlmClient:
    """Belongs to one event loop. ``counts`` are totals since the start, for the metrics."""

    def __init__(self, settings: Settings) -> None:
        share = max(1, settings.vlm_concurrency // settings.workers)
        self._settings = settings
        self._url = f"{settings.vlm_url}/chat/completions"
        self._headers = {"Authorization": f"Bearer {settings.vlm_api_key}"} if settings.vlm_api_key else {}
        self.limit = CallLimit(
            start=max(1, settings.vlm_concurrency_start // settings.workers), lowest=4, highest=share,
            target_s=settings.vlm_queue_target_s,
        )  # fmt: skip
        self._session: aiohttp.ClientSession | None = None
        self._away_since: float | None = None
        self.last_answer = float("-inf")  # time.monotonic()
        self.counts: Counter[str] = Counter()

    async def open(self) -> None:
        # vLLM closes idle connections after 5 s; we do so first. The limit on calls bounds the connections.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._settings.vlm_connect_timeout_s)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=False, headers=self._headers, read_bufsize=1 << 18
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def read_block(self, body: dict[str, Any], request_id: str, *, is_table: bool) -> Reply:
        """The text of one crop. ``body`` is the request without ``stream``; ``request_id`` goes into its header.

        Raises VlmUnavailable if the server is away or refuses us; anything that concerns the block alone is a note.
        """
        reply = await self._persist(body, request_id, is_table)
        if reply.note is not None and reply.note.kind == "repetition":
            self.counts["repetition_retries"] += 1
            second = await self._persist({**body, **OTHER_SAMPLING}, request_id, is_table)
            if second.note is None or second.note.has_text:
                reply = second
        self.counts[f"blocks_{reply.note.kind if reply.note else 'ok'}"] += 1
        return reply

    async def _persist(self, body: dict[str, Any], request_id: str, is_table: bool) -> Reply:
        tries, pause = 0, FIRST_PAUSE_S
        while True:
            tries += 1
            try:
                async with asyncio.timeout(None) as clock:
                    await self.limit.acquire()
                    try:
                        clock.reschedule(asyncio.get_running_loop().time() + self._settings.vlm_timeout_s)
                        reply = await self._once(body, f"{request_id}-{uuid.uuid4().hex[:8]}", is_table)
                    finally:
                        self.limit.release()
                self._away_since = None
                self.last_answer = time.monotonic()
                return reply
            except TimeoutError as exc:
                if isinstance(exc, aiohttp.ConnectionTimeoutError):
                    self._give_up_if_away(exc)
                else:
                    self.limit.refused()
                    if tries >= TIMED_OUT_TRIES:
                        return Reply("", BlockNote("timeout", "the VLM server did not answer in time"))
                wait = pause
            except (aiohttp.ClientError, ConnectionError) as exc:
                self._give_up_if_away(exc)
                if tries >= LOST_TRIES:
                    return Reply("", BlockNote("failed", f"the VLM server hung up on it {tries} times"))
                wait = pause
            except _Refused as refused:
                return Reply("", BlockNote("refused", str(refused)))
            except _TryAgain as again:
                if tries >= TRIES:
                    return Reply("", again.note)
                wait = again.pause_s or pause
            self.counts["retries"] += 1
            await asyncio.sleep(wait * random.uniform(0.8, 1.2))
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _give_up_if_away(self, exc: Exception) -> None:
        """Raises VlmUnavailable once the server has been away for as long as the operator is patient."""
        self.limit.refused()
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since >= self._settings.vlm_patience_s:
            raise VlmUnavailable(f"The VLM server at {self._settings.vlm_url} cannot be reached ({exc}).") from exc

    async def _once(self, body: dict[str, Any], request_id: str, is_table: bool) -> Reply:
        self.counts["calls"] += 1
        began = time.monotonic()
        async with self._session.post(
            self._url, json={**body, "stream": True}, headers={"X-Request-Id": request_id}
        ) as response:
            if response.status != 200:
                self._refuse(response, error_text(await response.read()))
            try:
                if "event-stream" in response.headers.get("Content-Type", ""):
                    return await self._follow(response, began, is_table)
                text, reason = from_json(await response.read())
            except NotACompletion as exc:
                message = f"the VLM server's answer is not a completion: {exc}"
                raise _TryAgain(BlockNote("failed", message)) from None
        self.limit.answered(None)
        return self._finished(text, reason, is_table)

    def _refuse(self, response: aiohttp.ClientResponse, words: str) -> None:
        """Raises what an answer other than 200 means."""
        status = response.status
        if status in NOT_OURS:
            raise VlmUnavailable(f"The VLM server at {self._settings.vlm_url} answers {status}: {words}")
        if status < 500 and status not in (408, 429):
            self.limit.answered(None)
            raise _Refused(words)
        if status in (429, 503):
            self.limit.refused()
        after = response.headers.get("Retry-After", "")
        raise _TryAgain(BlockNote("failed", words), min(float(after), LONGEST_PAUSE_S) if after.isdigit() else None)

    async def _follow(self, response: aiohttp.ClientResponse, began: float, is_table: bool) -> Reply:
        """Reads the events; hangs up on text that repeats itself, which ends its decoding in the server."""
        stream, least, first, looked = Stream(), TABLE_LEAST if is_table else TEXT_LEAST, None, 0
        async for data in response.content.iter_any():
            stream.feed(data)
            if first is None and stream.text:
                first = time.monotonic() - began
            if len(stream.text) - looked >= CHECK_EVERY:
                looked = len(stream.text)
                if period := repeated_tail(stream.text, least=least):
                    self.limit.answered(first)
                    return self._repeats(stream.text, period)
        if not stream.complete:
            raise aiohttp.ClientPayloadError("it ended its answer early")
        self.limit.answered(first)
        return self._finished(stream.text, stream.finish_reason, is_table)

    def _finished(self, text: str, finish_reason: str | None, is_table: bool) -> Reply:
        period = repeated_tail(text, least=TABLE_LEAST if is_table else TEXT_LEAST)
        if period:
            return self._repeats(text, period)
        if finish_reason == "length":
            return Reply(text, BlockNote("length", "the text was cut at maxNewTokens, or at the VLM's context"))
        return Reply(text)

    @staticmethod
    def _repeats(text: str, period: int) -> Reply:
        note = BlockNote(
            "repetition", f"the VLM repeated a piece of {period} characters without end; it was cut to one"
        )
        return Reply(cut_repetition(text, period), note)
