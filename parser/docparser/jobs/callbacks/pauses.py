# SPDX-License-Identifier: Apache-2.0
"""How long a callback that failed waits: exponential back-off with jitter, and Retry-After within bounds."""

from __future__ import annotations

import email.utils
import random

LONGEST_S = 3600.0


def pause(attempts: int, first_s: float, asked_s: float | None) -> float:
    """Seconds until the next one after ``attempts`` that failed. Half of a pause is by chance, so that many callbacks
    that failed together do not come together again. ``asked_s`` (Retry-After) only makes it longer."""
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
