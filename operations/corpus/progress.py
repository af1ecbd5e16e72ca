# SPDX-License-Identifier: Apache-2.0
"""The progress of a run on stderr: documents, pages, rate, and the time left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.console import Console

from batch.progress import MEANINGFUL, duration
from bundle.progress import plural

EVERY_S = 10.0
NAMES_SHOWN = 5
RECENT_S = 60.0  # over which the rate is averaged


def first(names: Sequence[str]) -> str:
    """The first names. Python quotes them, because a terminal might obey a name."""
    return ", ".join([*map(repr, names[:NAMES_SHOWN]), *["..."][: len(names) > NAMES_SHOWN]])


def earlier(names: Sequence[str], what: str, folder: str) -> str:
    """How many documents earlier runs left in a state, with the first names. ``folder`` has the records."""
    if not names:
        return ""
    return (
        f", {len(names)} {what} earlier (--retry-failed tries them again; records: {folder} below --out): "
        f"{first(names)}"
    )


class Progress:
    """Counts documents, bytes and pages. The totals of documents and bytes are known at the beginning, that of pages is
    not."""

    def __init__(
        self, documents: int, size: int, earlier: Mapping[str, int], stream: TextIO, every_s: float = EVERY_S
    ) -> None:
        """``documents`` and ``size`` in bytes are left to do. ``earlier``: how many documents earlier runs have left
        in which state."""
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self.documents, self._size, self._earlier = documents, size, earlier
        self._every_s = every_s
        self.done = self.aside = self.pages = self.missing = self.incomplete = 0
        self._bytes = 0
        self._began = self._said = time.monotonic()
        self._recent: list[tuple[float, int]] = [(self._began, 0)]

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def read(self, pages: int) -> None:
        """Pages that were read just now."""
        self.pages += pages
        self._show()

    def ended(self, size: int, *, aside: bool, missing: int, incomplete: int) -> None:
        """A document of ``size`` bytes is done or set aside."""
        self.done += not aside
        self.aside += aside
        self.missing += missing
        self.incomplete += incomplete
        self._bytes += size
        self._show()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._said >= self._every_s:
            self._said = now
            self.say(self.line())

    def line(self) -> str:
        now = time.monotonic()
        self._recent = [one for one in self._recent if now - one[0] <= RECENT_S] or self._recent[-1:]
        self._recent.append((now, self.pages))
        (then, pages) = self._recent[0]
        rate = (self.pages - pages) / max(1e-3, now - then)
        ended = self.done + self.aside
        words = f"{ended} of {plural(self.documents, 'document')}, {plural(self.pages, 'page')}, {rate:.2f} pages/s"
        if self._bytes and MEANINGFUL <= ended < self.documents:
            left = (self._size - self._bytes) * self.seconds / self._bytes
            words += f", about {duration(left)} left"  # by bytes, because pages are unknown until documents are opened
        return words + (f"; {self.aside} set aside" if self.aside else "")

    def summary(self) -> str:
        return (
            f"{self.done} of {plural(self.documents, 'document')} done, {self.aside} set aside"
            + "".join(
                f", {count} {state} earlier" for state, count in self._earlier.items() if count or state == "done"
            )
            + f". Pages: {self.pages} read in {duration(self.seconds)} "
            f"({self.pages / max(1e-3, self.seconds):.2f} a second), "
            f"{self.missing} missing, {self.incomplete} incomplete."
        )
