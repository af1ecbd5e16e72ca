# SPDX-License-Identifier: Apache-2.0
"""One log format for the service and its workers, on standard error."""

from __future__ import annotations

import logging


def configure_logging(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(processName)s %(name)s: %(message)s", force=True
    )
    for noisy in ("PIL", "asyncio", "httpcore", "httpx", "openai"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
