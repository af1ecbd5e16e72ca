# SPDX-License-Identifier: Apache-2.0
"""The log file of a service: what it has said since this call started it."""

from __future__ import annotations

import re
from pathlib import Path

# What vLLM and the parser put before a message: level, date and time, source. Other lines say nothing to a user.
MESSAGE_HEAD = re.compile(r"^.*?(?:INFO|WARNING) .*?(?:\]|:) ")
# Bytes at the end of the file that are looked at.
TAIL_BYTES = 200_000


class ServiceLog:
    """The log file at `path`, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = 0

    def begin_here(self) -> None:
        """Leave out what is in the file now: an earlier start wrote it."""
        self._begin = self._size()

    def last_lines(self, count: int) -> list[str]:
        """Return at most `count` non-empty lines from the end; [] if there are none."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(max(self._begin, self._size() - TAIL_BYTES))
                text = stream.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [line.strip() for line in text.splitlines() if line.strip()][-count:]

    def last_message(self) -> str:
        """Return the last message without its head, at most 100 characters; an empty text if there is none."""
        messages = [line for line in self.last_lines(30) if MESSAGE_HEAD.search(line)]
        return MESSAGE_HEAD.sub("", messages[-1])[:100] if messages else ""

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0
