# SPDX-License-Identifier: Apache-2.0
"""The audit log: who submitted, cancelled, retried or removed what, and who was refused. One JSON object per line.

Lines name the client, its address, the request and the job. They never hold content, names of files, or keys.
"""

from __future__ import annotations

import contextvars
import dataclasses
import logging
import logging.handlers
import os
import sys
import threading
import time
from io import TextIOWrapper
from pathlib import Path

from docparser.errors import NotReady
from docparser.logs import JsonFormatter

NAME = "docparser.audit"
log = logging.getLogger(__name__)

# A stranger may be refused as often as it likes. Beyond this many lines a second, refusals are only counted.
MOST_REFUSALS_PER_S = 20


@dataclasses.dataclass(frozen=True)
class Caller:
    """Who sent the request in work. ``name`` is the key's, "" where no key is needed."""

    name: str = ""
    id: str = ""
    address: str = ""


caller: contextvars.ContextVar[Caller] = contextvars.ContextVar("caller", default=Caller())  # noqa: B039 (it is frozen)


class AuditLog:
    """``target``: ``log`` (lines of the service's log, logger ``docparser.audit``), ``stdout``, ``off``, or a file.

    A file that was moved away is made anew, so any log rotation works. Raises NotReady if it cannot be written.
    """

    def __init__(self, target: str) -> None:
        # A logger of its own: neither the service's level nor another service in this process reaches it.
        self._logger = logging.Logger(NAME, logging.INFO)
        self._handler: logging.Handler | None = None
        self._lock = threading.Lock()
        self._second, self._count, self._left_out = 0, 0, 0
        if target == "off":
            self._logger.disabled = True
        elif target == "log":
            self._logger.parent = logging.getLogger()
        else:
            try:
                self._handler = logging.StreamHandler(sys.stdout) if target == "stdout" else _File(Path(target))
            except OSError as exc:
                raise NotReady(f"PARSER_AUDIT_LOG: {target} cannot be written ({exc.strerror})") from None
            self._handler.setFormatter(JsonFormatter())
            self._logger.addHandler(self._handler)

    def record(self, event: str, **fields: str | int | None) -> None:
        """One line with ``fields`` that are not None, beside those of the request in work."""
        who = caller.get()
        known: dict[str, str | int | None] = {
            "event": event,
            "client": who.name or None,
            "client_id": who.id or None,
            "address": who.address or None,
        }
        shown = {name: value for name, value in (known | fields).items() if value is not None}
        self._logger.info("%s", event, extra={"fields": shown})

    def refusal(self, reason: str, **fields: str | int | None) -> None:
        with self._lock:
            second = int(time.monotonic())
            if second != self._second:
                self._second, self._count = second, 0
            self._count += 1
            if self._count > MOST_REFUSALS_PER_S:
                self._left_out += 1
                return
            left_out, self._left_out = self._left_out, 0
        self.record("request.refused", reason=reason, left_out=left_out or None, **fields)

    def close(self) -> None:
        if self._handler is not None:
            self._handler.close()


class _File(logging.handlers.WatchedFileHandler):
    """Appends; only this user can read it. Several processes may write to it, because a line is one short write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.expanduser().absolute(), encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return open(descriptor, "a", encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except Exception:  # the library lets pass that a file that was moved away cannot be made anew
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the library's name)
        log.error("PARSER_AUDIT_LOG: a line is lost (%s): %s", sys.exc_info()[1], record.getMessage())
