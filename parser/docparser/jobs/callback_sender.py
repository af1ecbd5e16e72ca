# SPDX-License-Identifier: Apache-2.0
"""Sends due callbacks, which tell an address that the client named how its job ended, and records their outcomes. Every
service process runs one sender.

A slow receiver holds PER_HOST places at most, and each attempt has a time limit, so the other receivers are served.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import email.utils
import logging
import random
import time
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from docparser.clients.audit import AuditLog
from docparser.errors import DataDirFull, NotReady, StorageUnavailable
from docparser.jobs.storage.callbacks import CallbackQueue, CallbackState, Delivery
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.webhook import Signer, check_url, client_of, refusal_words
from docparser.outbound import AddressRefused, Unreachable
from docparser.settings import Settings

log = logging.getLogger(__name__)

OUTCOMES = ("delivered", "failed", "gone", "expired")
LONGEST_S = 3600.0  # of a pause
POLL_S = 0.5  # between two looks for due callbacks
RECLAIM_S = 5.0  # between two looks for dead processes
PAUSE_S = 1.0  # between two tries to record an attempt's outcome
PER_HOST = 4  # attempts at once to one host
MOST = 64  # attempts at once
GONE = 410
USER_AGENT = "docparser"


class CallbackMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = Counter(
            "docparser_callback_attempts",
            "Callbacks sent: delivered, failed (sent again later), gone (410), expired (failed for the last time).",
            ("outcome",),
            registry=registry,
        )
        self.waiting = Gauge(
            "docparser_callbacks_waiting",
            "Callbacks that are not over, of all parsers of the directory.",
            registry=registry,
        )
        for outcome in OUTCOMES:
            self._attempts.labels(outcome)

    def attempt(self, outcome: str) -> None:
        self._attempts.labels(outcome).inc()


def pause(attempts: int, first_s: float, asked_s: float | None) -> float:
    """Seconds until the next attempt, after ``attempts`` that failed: exponential back-off with jitter. Half of a pause
    is random, so that callbacks which failed together do not come together again. ``asked_s`` (Retry-After) only makes
    it longer."""
    usual = min(first_s * 2.0 ** min(attempts - 1, 40), LONGEST_S)
    return max(usual * random.uniform(0.5, 1.0), min(asked_s or 0.0, LONGEST_S))


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds that a ``Retry-After`` asks for (RFC 9110, 10.2.3: a number or a date); None if it says nothing."""
    if header is None:
        return None
    if header.strip().isdecimal() and header.isascii():
        return float(header.strip()[:9])
    try:
        return max(email.utils.parsedate_to_datetime(header).timestamp() - now, 0.0)
    except (ValueError, OverflowError):
        return None


@dataclasses.dataclass(frozen=True)
class Attempt:
    """``status`` of the answer, None without one; then ``words`` say why. ``retry_s`` is the pause that the receiver
    asks for."""

    status: int | None
    words: str = ""
    retry_s: float | None = None

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class CallbackSender:
    """Call ``start`` and ``close`` once each, in the service's event loop."""

    def __init__(
        self,
        settings: Settings,
        queue: CallbackQueue,
        files: JobFiles,
        body: Callable[[Delivery], bytes],
        audit: AuditLog,
        metrics: CallbackMetrics,
    ) -> None:
        """Raises NotReady if the secrets are wrong. ``body`` makes the JSON of a delivery, in a thread."""
        self._signer = Signer.of(settings)
        self._client = client_of(settings)
        self._queue = queue
        self._files = files
        self._body = body
        self._audit = audit
        self._metrics = metrics
        self._timeout_s = settings.callback_timeout_s
        self._first_pause_s = settings.callback_pause_s
        self._longest_s = settings.callback_hours * 3600
        self._running: dict[asyncio.Task[None], Delivery] = {}
        self._claim_failed = False
        self._free = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._loops = [
            asyncio.create_task(self._every(POLL_S, self._send_due, self._free)),
            asyncio.create_task(self._every(RECLAIM_S, self._reclaim, asyncio.Event())),
        ]

    async def close(self) -> None:
        """Begin nothing more, and wait for the running attempts: their receivers may have acted on them already."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        if self._running:
            await asyncio.wait(self._running, timeout=self._timeout_s + PAUSE_S)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._client.close()

    async def check(self, url: str | None) -> None:
        """Raises InvalidJob for an address that callbacks may not be sent to; None is none."""
        if url is not None:
            await check_url(self._client, url)

    async def _send_due(self) -> None:
        if self._claim_failed:
            await asyncio.to_thread(self._queue.keep_only, list(self._running.values()))
            self._claim_failed = False
        while len(self._running) < MOST and (delivery := await self._claim()):
            task = asyncio.create_task(self._deliver(delivery))
            self._running[task] = delivery
            task.add_done_callback(self._ended)

    async def _claim(self) -> Delivery | None:
        try:
            return await asyncio.to_thread(self._queue.claim, self._full())
        except StorageUnavailable:
            self._claim_failed = True
            raise

    def _full(self) -> list[str]:
        """Hosts that get no further attempt now."""
        return [
            host
            for host, count in collections.Counter(delivery.host for delivery in self._running.values()).items()
            if count >= PER_HOST
        ]

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._free.set()
        if not task.cancelled() and (exc := task.exception()):
            log.error("a callback", exc_info=exc)

    async def _deliver(self, delivery: Delivery) -> None:
        attempt = await self._attempt(delivery)
        while True:
            try:
                return await asyncio.to_thread(self._record, delivery, attempt)
            except (DataDirFull, StorageUnavailable):  # the keeper reports it; unrecorded, it would be sent again
                await asyncio.sleep(PAUSE_S)

    async def _attempt(self, delivery: Delivery) -> Attempt:
        assert delivery.job.callback is not None, "only jobs with one have deliveries"
        try:
            body = await asyncio.to_thread(self._body, delivery)
            signed = await asyncio.to_thread(self._signer.headers, delivery.id, int(time.time()), body)
            headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT, **signed}
            async with (
                asyncio.timeout(self._timeout_s),
                # The status says all, so the body stays unread.
                self._client.request("POST", delivery.job.callback["url"], data=body, headers=headers) as answer,
            ):
                words = "" if 200 <= answer.status < 300 else f"the receiver answers {answer.status}"
                return Attempt(answer.status, words, retry_after(answer.headers.get("Retry-After"), time.time()))
        except TimeoutError:
            return Attempt(None, f"no answer within {self._timeout_s:g} s (PARSER_CALLBACK_TIMEOUT_S)")
        except AddressRefused as exc:
            return Attempt(None, refusal_words(exc))
        except (Unreachable, NotReady) as exc:
            return Attempt(None, str(exc))
        except Exception:
            log.exception("callback of job %s", delivery.job.id)
            return Attempt(None, "the callback could not be made; the operator finds the details in the log")

    def _record(self, delivery: Delivery, attempt: Attempt) -> None:
        now = time.time()
        again = now + pause(delivery.attempts, self._first_pause_s, attempt.retry_s)
        if attempt.delivered:
            state = CallbackState.DELIVERED
        elif attempt.status == GONE:
            state = CallbackState.GONE
        elif again > delivery.created + self._longest_s:
            state = CallbackState.EXPIRED
        else:
            self._queue.wait(delivery, again, attempt.status, attempt.words)
            self._metrics.attempt("failed")
            log.info("job %s: callback to %s failed: %s", delivery.job.id, delivery.host, attempt.words)
            return
        if self._queue.over(delivery, state, attempt.status, attempt.words):
            with contextlib.suppress(
                DataDirFull, StorageUnavailable, OSError
            ):  # only a rebuilt database needs the mark
                self._files.mark_told(delivery.job.id, delivery.event)
        self._metrics.attempt(str(state))
        self._audit.record(
            f"callback.{state}",
            client_id=delivery.job.owner or None,
            job=delivery.job.id,
            state=delivery.event,
            host=delivery.host,
            attempts=delivery.attempts,
            status=attempt.status,
        )

    async def _reclaim(self) -> None:
        count = await asyncio.to_thread(self._queue.reclaim)
        if count:
            log.warning("%d callbacks of ended processes are sent again", count)
        self._metrics.waiting.set(await asyncio.to_thread(self._queue.waiting))

    async def _every(self, seconds: float, action: Callable[[], Awaitable[None]], earlier: asyncio.Event) -> None:
        while True:
            earlier.clear()
            try:
                await action()
            except (DataDirFull, StorageUnavailable):
                pass  # the keeper says it once
            except Exception:
                log.exception("callbacks")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await earlier.wait()
