# SPDX-License-Identifier: Apache-2.0
"""One log format for the service and its workers, on standard error. No content of documents and no keys go into it."""

from __future__ import annotations

import contextvars
import json
import logging
import re
import time

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")


# What a terminal or a pager obeys or reorders, and what cannot be written: control characters, the separators of lines
# and paragraphs, direction marks, overrides and isolates (Unicode UAX 9), tags, halves of surrogate pairs. A name or a
# path that a stranger chose may have any of them.
UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    return "".join(f"\\u{half:04x}" for half in (0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF)))


def one_line(text: str) -> str:
    """``text`` without anything that ends a line, moves the cursor, or changes the order of what is shown."""
    return UNPRINTABLE.sub(_escape, text)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time (UTC), level, logger, process, request_id if there is one, message, exception;
    and ``record.fields``, if the record has them."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.processName,
        }
        if request_id.get():
            fields["request_id"] = request_id.get()
        fields["message"] = record.getMessage()
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        fields |= getattr(record, "fields", {})
        # What has to be escaped stands in strings only, where an escape means the same character.
        return one_line(json.dumps(fields, ensure_ascii=False))


class TextFormatter(logging.Formatter):
    """One line per record. Each line of an exception follows with a mark before it, so none can pass for a record."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(processName)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        head, *rest = self._plain(record)
        fields = "".join(f" {name}={json.dumps(value)}" for name, value in getattr(record, "fields", {}).items())
        identity = request_id.get()
        lines = [one_line(head + fields) + (f" [{identity}]" if identity else "")]
        return "\n".join(lines + [f"  | {one_line(line)}" for line in rest])

    def _plain(self, record: logging.LogRecord) -> list[str]:
        """The record's own line, and those of its exception."""
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        traceback = self.formatException(record.exc_info).split("\n") if record.exc_info else []
        stack = record.stack_info.split("\n") if record.stack_info else []
        return [self.formatMessage(record), *traceback, *stack]


class _Adopted(logging.Logger):
    """A library's logger in our format: it ignores handlers of its own, and always propagates."""

    def addHandler(self, handler: logging.Handler) -> None:
        pass

    @property
    def propagate(self) -> bool:
        return True

    @propagate.setter
    def propagate(self, wish: bool) -> None:
        pass


def adopt(*names: str) -> None:
    """Make these loggers ours. Call it before their libraries are imported, because those set them up on import."""
    usual = logging.getLoggerClass()
    logging.setLoggerClass(_Adopted)
    try:
        for name in names:
            logging.getLogger(name)
    finally:
        logging.setLoggerClass(usual)


def configure_logging(level: str, format: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    adopt("paddlex", "paddleocr")
    for noisy in ("PIL", "asyncio", "httpcore", "httpx", "openai", "aiohttp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
