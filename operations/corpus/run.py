# SPDX-License-Identifier: Apache-2.0
"""One run on a Ray cluster: list, open, read, assemble, as a stream.

Ray Data moves only rows of some hundred bytes. Read pages go to the outputs' storage, never through Ray. So memory
depends on the number of pages at work, not on the corpus.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import ray
import ray.data

from . import attempts, records
from .assembling import from_parts, remove_parts
from .documents import Document, unfit
from .job import Job
from .opening import Opener
from .progress import Progress
from .reading import PartReader
from .records import Outcome

# Shares of a core. A reader takes nearly all of one, and the rest leaves room for opening and assembling on every node.
READER_CPUS, SMALL_CPUS = 0.9, 0.05
PARTS_AT_ONCE = 2  # parts that a reader has at once: one is laid out while the VLM reads the last blocks of another
ROWS_OF_A_BLOCK = 32  # documents that one task opens
ASSEMBLIES_A_CORE = 2  # that wait or run at once

Row = dict[str, Any]


def run(job: Job, documents: Sequence[Document], progress: Progress) -> None:
    """Parse all documents. Raises what ends a run: StorageUnavailable, VlmUnavailable and NotReady in Ray's wrapping,
    and Ray's own errors."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # Every part becomes a block of its own, which any actor can take.
    context.target_max_block_size = 1
    blocks = max(1, -(-len(documents) // ROWS_OF_A_BLOCK))
    rows = [dataclasses.asdict(one) for one in documents]
    readers = max(1, int(_cpus() / (READER_CPUS + SMALL_CPUS)))
    reader: Any = PartReader  # Ray's types know no classes here
    parts = (
        ray.data.from_items(rows, override_num_blocks=blocks)
        .flat_map(Opener(job), num_cpus=SMALL_CPUS)
        .map(
            reader,
            fn_constructor_kwargs={"job": job, "attempts": attempts.start()},
            num_cpus=READER_CPUS,
            compute=ray.data.ActorPoolStrategy(
                min_size=1,
                max_size=100_000,  # as many as the cluster has cores for
                initial_size=readers,
                max_tasks_in_flight_per_actor=2 * PARTS_AT_ONCE,
                max_concurrent_calls_per_actor=PARTS_AT_ONCE,
                enable_true_multi_threading=True,
            ),
        )
    )
    assembly = Assembly(job, progress)
    for row in parts.iter_rows():
        progress.read(row["read"])
        if row["ended"]:
            assembly.end(row)
        else:
            assembly.add(row)
    assembly.finish()


class Assembly:
    """Counts ended documents. If a document has several parts, it counts the read ones, and has the document assembled
    after the last."""

    def __init__(self, job: Job, progress: Progress) -> None:
        self._job, self._progress = job, progress
        self._read: Counter[str] = Counter()
        self._given_up: set[str] = set()
        self._running: dict[Any, Row] = {}
        self._task = ray.remote(num_cpus=SMALL_CPUS, max_retries=3)(_assemble)

    def add(self, row: Row) -> None:
        """A part was read. Waits where many documents are being assembled."""
        key = Document.of(row).key
        if key in self._given_up:
            return
        self._read[key] += 1
        if self._read[key] == row["parts"]:
            del self._read[key]
            self._running[self._task.remote(self._job, row)] = row
        self._collect(most=ASSEMBLIES_A_CORE * max(1, int(_cpus())))

    def end(self, row: Row) -> None:
        """A document was assembled where it was read, or is set aside. Each of its parts may report that."""
        document = Document.of(row)
        if document.key in self._given_up:
            return
        if row["parts"] > 1:
            self._read.pop(document.key, None)
            self._given_up.add(document.key)
            remove_parts(self._job, document)
        aside = bool(row["reason"])
        self._progress.ended(row["size"], aside=aside, missing=row["missing"], incomplete=row["incomplete"])

    def finish(self) -> None:
        self._collect(most=0)

    def _collect(self, most: int) -> None:
        """Take the results of ended tasks; wait while more than ``most`` run."""
        while self._running:
            wait = None if len(self._running) > most else 0
            ended, _ = ray.wait(list(self._running), timeout=wait)
            if not ended:
                return
            for reference in ended:
                row = self._running.pop(reference)
                outcome = ray.get(reference)
                self._progress.ended(row["size"], aside=False, missing=outcome.missing, incomplete=outcome.incomplete)


def _assemble(job: Job, row: Row) -> Outcome:
    return from_parts(job, Document.of(row), row["pages"], row["format"])


def _cpus() -> float:
    return ray.cluster_resources().get("CPU", 1.0)


class Todo(NamedTuple):
    """``left`` are the documents that no earlier run has ended. ``done`` counts the complete ones. ``incomplete`` names
    documents with a missing or incomplete page, ``aside`` those that were set aside."""

    left: list[Document]
    done: int
    incomplete: list[str]
    aside: list[str]


def left_to_do(job: Job, documents: Iterator[Document], *, again: bool) -> Todo:
    """``again``: documents that are incomplete or set aside are tried again. Raises StorageUnavailable."""
    out = job.output()
    done, incomplete, aside = (records.keys(out, folder) for folder in records.FOLDERS)
    left, earlier, kept_incomplete, kept_aside = [], 0, list[str](), list[str]()
    for document in documents:
        if document.key in done:
            earlier += 1
        elif document.key in incomplete and not again:
            kept_incomplete.append(document.name)
        elif document.key in aside and not again:
            kept_aside.append(document.name)
        elif reason := unfit(document.name):
            # A bad name is no name for a record.
            digest = hashlib.sha256(os.fsencode(document.name)).hexdigest()
            known_by = Document(f"names/{digest}", document.size, document.version)
            records.keep(out, known_by, Outcome(document.name, reason=reason))
            kept_aside.append(document.name)
        else:
            for folder, known in ((records.INCOMPLETE, incomplete), (records.ASIDE, aside)):
                if document.key in known:
                    records.forget(out, document, folder)
            left.append(document)
    return Todo(_with_former(left, (done, incomplete, aside)), earlier, kept_incomplete, kept_aside)


def _with_former(documents: list[Document], ended: Iterable[set[str]]) -> list[Document]:
    """``ended`` are keys of documents that earlier runs have ended."""
    former: dict[str, set[str]] = {one.name: set() for one in documents}
    for name, _, version in (key.rpartition("@") for keys in ended for key in keys):
        if name in former:
            former[name].add(version)
    return [dataclasses.replace(one, former=" ".join(sorted(former[one.name] - {one.version}))) for one in documents]
