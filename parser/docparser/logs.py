# SPDX-License-Identifier: Apache-2.0
"""One log format for the service and its workers, on standard error. No content of documents and no keys go into it."""

from __future__ import annotations

import contextvars
import json
import logging
import time

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time (UTC), level, logger, process, request_id where there is one, message, exception."""

    converter = time.gmtime

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
        return json.dumps(fields, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(processName)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        identity = request_id.get()
        return super().format(record) + (f" [{identity}]" if identity else "")


class _Adopted(logging.Logger):
    """A library's logger that stays in our format: its own handlers, and its wish not to be passed on, have no effect."""

    def addHandler(self, handler: logging.Handler) -> None:
        pass

    @property
    def propagate(self) -> bool:
        return True

    @propagate.setter
    def propagate(self, wish: bool) -> None:
        pass


def adopt(*names: str) -> None:
    """Must come before the libraries that have these loggers are imported: they set them up while they are."""
    usual = logging.getLoggerClass()
    logging.setLoggerClass(_Adopted)
    try:
        for name in names:
            logging.getLogger(name)
    finally:
        logging.setLoggerClass(usual)


def configure_logging(level: str, format: str = "json") -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    adopt("paddlex", "paddleocr")
    for noisy in ("PIL", "asyncio", "httpcore", "httpx", "openai", "aiohttp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
