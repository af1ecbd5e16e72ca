# SPDX-License-Identifier: Apache-2.0
"""One step of a job from its claim to its end: the document is opened, a page of it parsed, or its pages are joined.

However it ends, the queue is told: the step is finished, has failed, or goes back for another try.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from pydantic import ValidationError

from docparser import traces
from docparser.clients.allowance import Allowance
from docparser.contract.answers import ModelsInUse
from docparser.contract.request_parts import parse_ranges, select_pages
from docparser.contract.schemas import ParseOptions, describe_errors
from docparser.documents.spool import Document
from docparser.errors import (
    DataDirFull,
    InternalError,
    InvalidJob,
    NotReady,
    ParserError,
    StorageDamaged,
    StorageUnavailable,
    VlmUnavailable,
)
from docparser.jobs import pages
from docparser.jobs.result import Damage
from docparser.jobs.storage.files import JobFiles, size_of
from docparser.jobs.storage.queue import Claim, PageRecord, StepQueue
from docparser.jobs.storage.states import JOINING, OPENING, Step, StepState
from docparser.jobs.storage.store import JobStore
from docparser.models.readiness import Readiness
from docparser.parsing.fair_queue import Flow
from docparser.parsing.result import BLOCK_PAUSE_S, BLOCK_TRIES, PageOutcome
from docparser.parsing.service import ParseService

log = logging.getLogger(__name__)

PAUSE_S = 1.0  # between two tries to tell the queue
SUSPECT = 3
ABSENCES = 30  # the service itself may end as often with a page (``jobs/storage/queue``)
GONE = "the document is missing where jobs are kept; submit it again"

# The service cannot work now, whatever the page; the step is tried again when it can.
RETRY_LATER = (NotReady, DataDirFull, StorageUnavailable)


def pages_of_job(text: str | None, count: int) -> list[int]:
    """The page numbers (from 1, ascending, each once) that ``text`` names in a document of ``count`` pages; None means
    all. Raises InvalidJob."""
    if text is None:
        return list(range(1, count + 1))
    try:
        return select_pages(parse_ranges(text), count)
    except ValueError as exc:
        raise InvalidJob(f"pageRanges: {exc}") from None


class Suspects:
    """Pages that were at work when the VLM went away. Most are innocent, but one may end the server each time.

    A page is begun only while the VLM is there (``jobs/runner``). If the VLM is away at the page's end, the page is a
    suspect. After SUSPECT absences it is parsed with no other suspect beside it, so that innocent pages are cleared.
    After ABSENCES it is given up: one page must not take the server from all others for ever. Each process has suspects
    of its own.
    """

    def __init__(self) -> None:
        self._absences: Counter[tuple[str, int]] = Counter()
        self._alone = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self, claim: Claim) -> AsyncIterator[None]:
        """Parse the page inside. A suspect waits until no other one is being parsed."""
        if self._absences[claim.job.id, claim.number] < SUSPECT:
            yield
            return
        async with self._alone:
            yield

    def guilty(self, claim: Claim) -> bool:
        """Count an absence. Returns whether to give the page up."""
        self._absences[claim.job.id, claim.number] += 1
        if self._absences[claim.job.id, claim.number] < ABSENCES:
            return False
        self.clear(claim)
        return True

    def clear(self, claim: Claim) -> None:
        """The VLM answered for the page, or the page has ended."""
        self._absences.pop((claim.job.id, claim.number), None)

    def forget(self) -> None:
        self._absences.clear()


class StepWork:
    """``pause`` is called with the reason why no step can be worked on now."""

    def __init__(
        self,
        service: ParseService,
        readiness: Readiness,
        store: JobStore,
        queue: StepQueue,
        files: JobFiles,
        allowance: Allowance,
        damage: Damage,
        pause: Callable[[ParserError], None],
    ) -> None:
        self._service = service
        self._readiness = readiness
        self._store = store
        self._queue = queue
        self._files = files
        self._allowance = allowance
        self._damage = damage
        self._pause = pause
        self._suspects = Suspects()
        self._flows: dict[str, Flow] = {}

    async def do(self, claim: Claim) -> None:
        """Do one step, and tell the queue how it ended. Raises CancelledError only."""
        try:
            options = ParseOptions.model_validate(claim.job.options)
        except ValidationError as exc:  # kept by an earlier release, which allowed more
            words = f"optionalPayload: {describe_errors(exc.errors())}"
            return await self._keep_trying(self._queue.fail, claim, "InvalidJob", words, join=False)
        join = options.restructurePages
        try:
            if claim.number == OPENING:
                await self._open(claim, join)
            elif claim.number == JOINING:
                await self._join(claim, options)
            else:
                await self._parse(claim, options, join)
        except asyncio.CancelledError:
            # The job was cancelled, or the service ends. A thread may still write the page; the database decides.
            await asyncio.shield(asyncio.to_thread(self._requeue_quietly, claim))
            raise
        except VlmUnavailable as exc:
            self._pause(exc)
            await self._after_absence(claim, exc, join)
        except RETRY_LATER as exc:
            self._pause(exc)
            await self._keep_trying(self._queue.requeue, claim, 0.0, count=False)
        except ParserError as exc:
            await self._fail(claim, type(exc).__name__, str(exc), join)
        except Exception:
            log.exception("job %s, step %d", claim.job.id, claim.number)
            await self._fail(claim, "InternalError", InternalError.on_a_page, join)

    async def _fail(self, claim: Claim, kind: str, words: str, join: bool) -> None:
        """The page failed. If its document's place cannot be used, it is tried again instead."""
        try:
            await asyncio.to_thread(self._files.check)
        except StorageUnavailable as exc:
            self._pause(exc)
            await self._keep_trying(self._queue.requeue, claim, 0.0, count=False)
        else:
            await self._keep_trying(self._queue.fail, claim, kind, words, join=join)

    async def _after_absence(self, claim: Claim, exc: VlmUnavailable, join: bool) -> None:
        """The page waits for the VLM as long as needed. It fails if the VLM went away with it ABSENCES times."""
        if self._suspects.guilty(claim):
            words = f"The VLM server went away {ABSENCES} times while it had this page. {exc}"
            await self._keep_trying(self._queue.fail, claim, "VlmUnavailable", words, join=join)
        else:
            await self._keep_trying(self._queue.requeue, claim, 0.0, count=False)

    def _requeue_quietly(self, claim: Claim) -> None:
        with contextlib.suppress(DataDirFull, StorageUnavailable):
            self._queue.requeue(claim, 0.0, count=False)

    async def _keep_trying(self, method: Any, *arguments: Any, **options: Any) -> Any:
        """Call a method of the queue until it succeeds: the disk may be full, or the database away."""
        while True:
            try:
                return await asyncio.to_thread(method, *arguments, **options)
            except (DataDirFull, StorageUnavailable) as exc:
                self._pause(exc)
                await asyncio.sleep(PAUSE_S)

    async def _open(self, claim: Claim, join: bool) -> None:
        async with self._document(claim) as document:
            await asyncio.to_thread(self._files.forget_unsure, claim.job.id)  # the claim proves its row
            count = await self._service.count_pages(document, self._flow(claim))
        numbers = pages_of_job(claim.job.page_ranges, count)
        job = claim.job
        await asyncio.to_thread(self._allowance.spend_pages, job.owner, len(numbers), reference=job.id)
        await asyncio.to_thread(self._queue.opened, claim, count, numbers, join=join)

    async def _parse(self, claim: Claim, options: ParseOptions, join: bool) -> None:
        job, waited_s = claim.job, time.time() - claim.job.created if claim.attempts == 1 else 0.0
        async with self._suspects.turn(claim), self._document(claim) as document:
            with traces.below(job.trace or {}):
                traces.past("job queue", waited_s, job.trace or {})
                outcome = await self._service.page(
                    document, claim.number - 1, options, self._flow(claim), f"job-{job.id}", waited_s
                )
        self._suspects.clear(claim)
        if outcome.error is not None:
            raise outcome.error
        if claim.attempts < BLOCK_TRIES and outcome.vlm_failed_on_some_block:
            return await asyncio.to_thread(self._queue.requeue, claim, BLOCK_PAUSE_S, count=True)
        if (failure := outcome.vlm_failure) is not None:
            return await asyncio.to_thread(self._queue.fail, claim, "VlmUnavailable", str(failure), join=join)
        models = await self._readiness.models_in_use()
        # While the storage or the database is away, keep the page and try again: reading costs more than waiting.
        record = await self._keep_trying(self._keep, claim, outcome, models)
        if not await self._keep_trying(self._queue.finish, claim, record, join=join):
            await asyncio.to_thread(self._files.remove_page, claim.job.id, record.folder)

    def _keep(self, claim: Claim, outcome: PageOutcome, models: ModelsInUse) -> PageRecord:
        page, files = pages.pack(outcome, claim.number, models)
        self._files.check()
        if not self._files.has_document(claim.job.id):
            raise InvalidJob(GONE)
        folder, sha256, size = self._files.keep_page(claim.job.id, claim.number, page, files)
        return PageRecord(folder, sha256, page["width"], page["height"], size)

    async def _join(self, claim: Claim, options: ParseOptions) -> None:
        _, _, found, _ = await asyncio.to_thread(self._store.look, claim.job.id)
        steps = [(step, step.folder) for step in found if step.state is StepState.DONE and step.folder]
        read, damaged = await asyncio.to_thread(self._read, claim, steps)
        if damaged:
            return await asyncio.to_thread(self._read_again, claim, steps, damaged)
        replaced = await asyncio.to_thread(lambda: sum(size_of(*page) for page in read))
        frozen = {step.number - 1: pages.frozen_of(files) for (step, _), (_, files) in zip(steps, read, strict=True)}
        texts, notes = await self._service.join(frozen, options, self._flow(claim))
        records = {}
        for place, ((step, _), (page, files), text) in enumerate(zip(steps, read, texts, strict=True)):
            new, files = pages.repack(page, text, files, [note for noted, note in notes if noted == place])
            folder, sha256, size = await asyncio.to_thread(self._files.keep_page, claim.job.id, step.number, new, files)
            records[step.number] = PageRecord(folder, sha256, new["width"], new["height"], size)
        await asyncio.to_thread(self._replace, claim, steps, records, replaced)

    def _read_again(self, claim: Claim, steps: list[tuple[Step, str]], damaged: dict[int, str]) -> None:
        """Reset the rows, then remove the folders. It is one call, which a cancelled task does not interrupt."""
        if self._damage.before_joining(claim, damaged):
            for step, folder in steps:
                if step.number in damaged:
                    self._files.remove_page(claim.job.id, folder)

    def _replace(
        self, claim: Claim, steps: list[tuple[Step, str]], records: dict[int, PageRecord], replaced: int
    ) -> None:
        """Change the rows, then remove the folders that no row names. If the step was lost meanwhile, these are the
        joined ones."""
        joined = self._queue.joined(claim, records, replaced)
        for folder in [folder for _, folder in steps] if joined else [record.folder for record in records.values()]:
            self._files.remove_page(claim.job.id, folder)

    def _read(
        self, claim: Claim, steps: list[tuple[Step, str]]
    ) -> tuple[list[tuple[dict[str, Any], dict[str, bytes]]], dict[int, str]]:
        """The finished pages with their files; and for damaged pages, by number, the reason."""
        read, damaged = [], {}
        for step, folder in steps:
            try:
                read.append(self._files.read_page(claim.job.id, folder, step.sha256))
            except StorageDamaged as exc:
                damaged[step.number] = str(exc)
                self._files.make_sure()
        return read, damaged

    @contextlib.asynccontextmanager
    async def _document(self, claim: Claim) -> AsyncIterator[Document]:
        """The document as a file of this machine. Raises InvalidJob where it is gone."""
        with contextlib.ExitStack() as stack:
            try:
                path = await asyncio.to_thread(stack.enter_context, self._files.document(claim.job.id))
            except FileNotFoundError:
                raise InvalidJob(GONE) from None
            yield Document(str(path), claim.job.format)

    def _flow(self, claim: Claim) -> Flow:
        """A client's flow: all its jobs together take turns like one request."""
        return self._flows.setdefault(claim.job.flow, Flow(claim.job.flow))

    def keep_flows(self, names: Iterable[str]) -> None:
        """Drop the flows of clients without steps."""
        for name in self._flows.keys() - set(names):
            del self._flows[name]

    def forget_suspects(self) -> None:
        self._suspects.forget()
