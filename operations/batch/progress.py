# SPDX-License-Identifier: Apache-2.0
"""The progress of a run: a bar with pages per second and time left, then the failures with their reasons."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from bundle.files import printable
from bundle.progress import plural

from .inputs import LeftOut
from .state import DocumentState, Doubt

EVERY_S = 15.0  # a line this often where stderr is no terminal
ROWS = 40
MOST_KINDS = 10
MEANINGFUL = 10  # pages or documents: the first ones wait for models to load, so they do not show the rate


@dataclass
class Counts:
    """Numbers of pages.

    `total` counts those of all documents, `earlier` those that earlier runs parsed, `skipped` those on which earlier
    runs failed. `parsed` and `failed` count those of this run.
    """

    total: int = 0
    earlier: int = 0
    skipped: int = 0
    parsed: int = 0
    failed: int = 0

    @property
    def left(self) -> int:
        return self.total - self.earlier - self.skipped - self.parsed - self.failed


class Display:
    """The bar on a terminal, lines elsewhere; both on stderr."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._began = self._said = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def start(self) -> None:
        """Show the bar; pages per second count from here."""
        self._began = self._said = time.monotonic()
        if self.console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("pages"),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                console=self.console,
            )
            done = self.counts.total - self.counts.left
            self._task = self._bar.add_task("parsing", total=self.counts.total, completed=done, rate="")
            self._bar.start()

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def update(self) -> None:
        """Show the counts; called after each page."""
        done = self.counts.total - self.counts.left
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, rate=self._rate())
        elif time.monotonic() - self._said >= EVERY_S:
            self._said = time.monotonic()
            self.say(f"{done} of {self.counts.total} pages, {self._rate()}")

    def _rate(self) -> str:
        worked = self.counts.parsed + self.counts.failed
        rate = worked / max(1e-3, time.monotonic() - self._began)
        left = f", {duration(self.counts.left / rate)} left" if worked >= MEANINGFUL else ""
        return f"{rate:.2f} pages/s{left}" if rate else ""

    def summary(self, states: Sequence[DocumentState], left_out: Sequence[LeftOut]) -> None:
        """Print the final table to stdout: every missing or incomplete page with the reason, then the counts."""
        console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 160)
        rows = [(state.document.name, trouble) for state in states for trouble in state.trouble]
        if rows:
            table = Table("document", "page", "", "why", title="not complete", title_justify="left")
            for name, trouble in rows[:ROWS]:
                page = str(trouble.page) if trouble.page else "all"
                table.add_row(printable(name), page, "missing" if trouble.lost else "incomplete", trouble.reason)
            console.print(table, markup=False)
            print_rest(console, len(rows), "")
        doubts = [(state.document.name, page, found) for state in states for page, found in state.doubts.items()]
        for name, number, found in doubts[:ROWS]:
            console.print(f"doubtful: {printable(name)}, page {number}: {', '.join(map(told, found))}", markup=False)
        print_rest(console, len(doubts), " pages")
        notes = [
            (state.document.name, page, note)
            for state in states
            for page, found in state.notes.items()
            for note in found
        ]
        for name, number, note in notes[:ROWS]:
            console.print(f"note: {printable(name)}, page {number}: {note.message}", markup=False)
        print_rest(console, len(notes), " notes")
        seconds = time.monotonic() - self._began
        counts = self.counts
        sources: Counter[str] = sum((state.sources for state in states), Counter())
        whole, unread = sum(state.complete for state in states), sum(state.unread for state in states)
        console.print(
            f"{whole} of {plural(len(states), 'document')} complete. "
            f"Pages: {counts.parsed} parsed in {duration(seconds)}, {counts.earlier} earlier, "
            f"{sum(trouble.lost for _, trouble in rows)} missing, "
            f"{sum(not trouble.lost for _, trouble in rows)} incomplete"
            + (f", {unread} not read yet." if unread else ".")
            + (f" Doubtful blocks: {sum(len(found) for _, _, found in doubts)}." if doubts else "")
            + (f" Blocks: {sources['page']} with the page's own text, {sources['vlm']} by the VLM." if sources else "")
            + (f" Left out: {suffixes(left_out)}; report.json says why." if left_out else ""),
            markup=False,
            soft_wrap=True,
        )


def print_rest(console: Console, count: int, what: str) -> None:
    """Say how many rows a list of `count` has beyond those that were printed, if any."""
    if count > ROWS:
        console.print(f"... and {count - ROWS} more{what}; report.json has them all", markup=False)


def suffixes(left_out: Sequence[LeftOut]) -> str:
    """How many files, and their names' endings: `3 files (.gif, .heic)`."""
    kinds = sorted({printable(one.name.suffix.lower()) or "no ending" for one in left_out})
    shown = ", ".join(kinds[:MOST_KINDS]) + (", ..." if len(kinds) > MOST_KINDS else "")
    return f"{plural(len(left_out), 'file')} ({shown})"


def told(doubt: Doubt) -> str:
    """A doubtful block in words."""
    known = [] if doubt.confidence is None else [f"{doubt.confidence:.2f}"]
    if doubt.agreement is not None:
        known.append(f"agrees by {doubt.agreement:.2f}")
    return f"block {doubt.block} ({doubt.label}, {', '.join(known) or 'cut'})"


def duration(seconds: float) -> str:
    """Return a duration as `1 h 02 min`, `3 min 05 s` or `7 s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
