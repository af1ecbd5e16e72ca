# SPDX-License-Identifier: Apache-2.0
"""Calls of the VLM server: pooled connections, a limit on concurrent calls, retries, and an end to runaway text."""

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

from docparser import traces
from docparser.errors import VlmUnavailable
from docparser.settings import Settings
from docparser.settings.models import VLM_CONNECT_TIMEOUT_S
from docparser.vlm.endpoints import CallLimit, Endpoint, Endpoints, Reachability
from docparser.vlm.failures import (
    FIRST_PAUSE_S,
    MISCONFIGURED,
    TINY_S,
    BlockNote,
    BlockRefused,
    CallFailed,
    not_a_completion,
    of_exception,
    of_status,
)
from docparser.vlm.repetition import Guard, cut_repetition, repeated_tail
from docparser.vlm.reply import (
    ASKED,
    BROKEN_OFF,
    Completion,
    NotACompletion,
    Stream,
    error_text,
    from_json,
)
from selftest.server import OTHER_SAMPLING
from selftest.tiny_image import tiny_request, tiny_request_id

# In each event, so that a stream that is left has its count too.
COUNTED = {"include_usage": True, "continuous_usage_stats": True}
log = logging.getLogger(__name__)
CHECK_EVERY = 200  # characters between two checks for a repetition


@dataclasses.dataclass(frozen=True)
class Reply:
    """``note`` says why the text is missing or cut; None if it is whole. ``tokens``: of the prompt and of the text.
    ``confidence``: of the VLM in the text, 0 to 1; None if it was not asked for or not given."""

    text: str
    note: BlockNote | None = None
    tokens: tuple[int, int] = (0, 0)
    confidence: float | None = None

    @property
    def answered(self) -> bool:
        """Whether the VLM has read it, be it one of its parts."""
        return self.note is None or self.note.has_text or bool(self.text)


class VlmClient:
    """Belongs to one event loop. ``counts`` are totals since the start, for the metrics."""

    def __init__(self, settings: Settings, timeout_s: float | None = None) -> None:
        """``timeout_s``: the longest wait for one answer; None: that for a crop, PARSER_VLM_TIMEOUT_S."""
        share = max(1, settings.vlm_concurrency // settings.workers)
        self._settings = settings
        self._timeout_s = timeout_s or settings.vlm_timeout_s
        self._endpoints = Endpoints(settings.vlm_urls)
        self._headers = {"Authorization": f"Bearer {settings.vlm_api_key}"} if settings.vlm_api_key else {}
        self.limit = CallLimit(
            start=max(1, settings.vlm_concurrency_start // settings.workers),
            lowest=4,
            highest=share,
            target_s=settings.vlm_queue_target_s,
        )
        self._session: aiohttp.ClientSession | None = None
        self.presence = Reachability(str(self._endpoints), settings.vlm_patience_s, self._reads_tiny_image)
        self.counts: Counter[str] = Counter()
        self._asked = ASKED if settings.confidence else {}

    async def open(self) -> None:
        # vLLM closes idle connections after 5 s, so we close them earlier. The limit on calls bounds the connections.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=VLM_CONNECT_TIMEOUT_S)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=False, headers=self._headers, read_bufsize=1 << 18
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def read_block(self, body: dict[str, Any], request_id: str, guard: Guard) -> Reply:
        """The text of a crop or page. ``body`` is the request without ``stream``; ``request_id`` goes into its header.

        Raises VlmUnavailable if the server is away or refuses the service; a problem of the block alone becomes a note.
        """
        reply = await self._call_with_retries(body, request_id, guard)
        if reply.note is not None and reply.note.kind == "repetition" and guard.again:
            self.counts["repetition_retries"] += 1
            second = await self._call_with_retries({**body, **OTHER_SAMPLING}, request_id, guard)
            tokens = (reply.tokens[0] + second.tokens[0], reply.tokens[1] + second.tokens[1])
            better = second.note is None or second.note.has_text
            reply = dataclasses.replace(second if better else reply, tokens=tokens)
        self.counts[f"blocks_{reply.note.kind if reply.note else 'ok'}"] += 1
        return reply

    async def _call_with_retries(self, body: dict[str, Any], request_id: str, guard: Guard) -> Reply:
        faults, pause = 0, FIRST_PAUSE_S
        nobody_since: float | None = None
        while True:
            asked = self._asked
            try:
                reply = await self._one_call(body, request_id, guard)
            except BlockRefused as refused:
                self.presence.answered()
                if asked and "logprob" in str(refused):
                    if self._asked:  # calls that were under way are refused, too
                        log.warning(
                            "the VLM server gives no log-probabilities, so blocks have no confidence: %s", refused
                        )
                    self._asked = {}
                    continue
                return Reply("", BlockNote("refused", str(refused)))
            except CallFailed as exc:
                failed, moment = exc, time.monotonic()
                others = self._endpoints.awake
            else:
                self.presence.answered()
                return reply
            self.presence.failed()
            await asyncio.sleep((failed.pause_s or pause) * random.uniform(0.8, 1.2))
            pause = min(pause * 2, failed.longest_pause_s)
            if failed.tries is None and others:
                given_up = False  # another server is asked next
            elif failed.tries is None:
                self.presence.away(failed.words)
                nobody_since = nobody_since or moment
                given_up = moment - nobody_since > self._timeout_s  # others are answered all the time
            elif await self.presence.answers_since(moment):
                faults += 1
                given_up = faults >= failed.tries
            else:
                self.presence.away(failed.words)
                given_up = False
            if given_up:
                return Reply("", failed.note)
            self.counts["retries"] += 1

    async def _one_call(self, body: dict[str, Any], request_id: str, guard: Guard) -> Reply:
        """Raises BlockRefused, CallFailed, VlmUnavailable."""
        await self.limit.acquire()
        try:
            with self._endpoints.one() as endpoint:
                return await self._call_of(endpoint, body, f"{request_id}-{uuid.uuid4().hex[:8]}", guard)
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as exc:
            self.limit.refused()
            raise of_exception(exc) from exc
        finally:
            self.limit.release()

    async def _call_of(self, endpoint: Endpoint, body: dict[str, Any], request_id: str, guard: Guard) -> Reply:
        """Tells the endpoint how the call ended."""
        try:
            with traces.span("vlm", kind="client", server__address=endpoint.host, request_id=request_id):
                async with asyncio.timeout(self._timeout_s):
                    reply = await self._call(endpoint.url, body, request_id, guard)
        except BlockRefused:
            endpoint.answered()
            raise
        except (CallFailed, VlmUnavailable, aiohttp.ClientError, OSError):  # TimeoutError is an OSError
            endpoint.failed()
            raise
        endpoint.answered()
        return reply

    async def _call(self, url: str, body: dict[str, Any], request_id: str, guard: Guard) -> Reply:
        self.counts["calls"] += 1
        assert self._session is not None, "open() comes before calls"
        began = time.monotonic()
        async with self._session.post(
            f"{url}/chat/completions",
            json={**body, **self._asked, "stream": True, "stream_options": COUNTED},
            headers={"X-Request-Id": request_id, **traces.carrier()},
        ) as response:
            if response.status != 200:
                self._raise_for_status(url, response, error_text(await response.read()))
            try:
                if "event-stream" in response.headers.get("Content-Type", ""):
                    return await self._read_events(response, began, guard)
                answer = from_json(await response.read())
            except NotACompletion as exc:
                raise not_a_completion(exc) from None
        if answer.finish_reason in BROKEN_OFF:
            raise aiohttp.ClientPayloadError("it ended its answer early")
        self.limit.answered(None)
        return self._finished(answer, guard)

    def _raise_for_status(self, url: str, response: aiohttp.ClientResponse, words: str) -> None:
        """Raises the exception for an answer other than 200."""
        status = response.status
        if status in MISCONFIGURED:
            self.presence.failed()
            raise VlmUnavailable(f"The VLM server at {url} answers {status}: {words}")
        if 400 <= status < 500 and status not in (408, 429):
            self.limit.answered(None)
            raise BlockRefused(words)
        if status in (429, 502, 503, 504):
            self.limit.refused()
        raise of_status(status, words, response.headers.get("Retry-After", ""))

    async def _reads_tiny_image(self) -> bool:
        """Whether a server has something to say about a tiny image."""
        assert self._session is not None, "open() comes before calls"
        headers = {"X-Request-Id": tiny_request_id()}
        timeout = aiohttp.ClientTimeout(total=TINY_S, sock_connect=VLM_CONNECT_TIMEOUT_S)
        body = tiny_request(self._settings.vlm_model_name)
        with self._endpoints.one() as endpoint:
            url = f"{endpoint.url}/chat/completions"
            try:
                async with self._session.post(url, json=body, headers=headers, timeout=timeout) as response:
                    if response.status != 200:
                        return False
                    from_json(await response.read())
            except (aiohttp.ClientError, OSError, NotACompletion):  # TimeoutError is an OSError
                endpoint.failed()
                return False
            endpoint.answered()
        return True

    async def _read_events(self, response: aiohttp.ClientResponse, began: float, guard: Guard) -> Reply:
        """Read the events. Text that repeats itself ends the connection, and thereby the decoding in the server."""
        stream, first, looked = Stream(), None, 0
        async for data in response.content.iter_any():
            stream.feed(data)
            if first is None and stream.text:
                first = time.monotonic() - began
            if len(stream.text) - looked >= CHECK_EVERY:
                looked = len(stream.text)
                if period := repeated_tail(stream.text, guard):
                    self.limit.answered(first)
                    return self._cut(stream.text, period, stream.tokens)
        if not stream.complete:
            raise aiohttp.ClientPayloadError("it ended its answer early")
        self.limit.answered(first)
        confidence = stream.probabilities.confidence
        return self._finished(Completion(stream.text, stream.finish_reason, stream.tokens, confidence), guard)

    def _finished(self, answer: Completion, guard: Guard) -> Reply:
        text, finish_reason, tokens, confidence = answer
        period = repeated_tail(text, guard)
        if period:
            return self._cut(text, period, tokens)
        if finish_reason == "length":
            note = BlockNote("length", "the text was cut at maxNewTokens, or at the VLM's context")
            return Reply(text, note, tokens, confidence)
        return Reply(text, None, tokens, confidence)

    @staticmethod
    def _cut(text: str, period: int, tokens: tuple[int, int]) -> Reply:
        note = BlockNote(
            "repetition", f"the VLM repeated a piece of {period} characters without end; it was cut to one"
        )
        return Reply(cut_repetition(text, period), note, tokens)
