# SPDX-License-Identifier: Apache-2.0
"""Quotas of a key: how much of what it may use in a period, like ``pages=1000/day`` or ``bytes=5GiB/month``.

Periods are those of the calendar in UTC, not sliding windows: a client can tell from the clock when a quota begins
anew, and one number per period is all that has to be kept.
"""

from __future__ import annotations

import calendar
import dataclasses
import re
import time

RESOURCES = {
    "pages": "pages of documents",
    "bytes": "bytes of requests",
    "jobs": "jobs",
    "requests": "requests",
    "connections": "requests at once",
}
AT_ONCE = "connections"  # the one resource without a period
PERIODS = {"minute": 60, "hour": 3600, "day": 86_400, "month": 0}  # seconds; a month has no fixed length
UNITS = {"": 1} | {
    f"{prefix}{kind}": base**power
    for power, prefix in enumerate(("k", "M", "G", "T"), 1)
    for kind, base in (("", 1000), ("B", 1000), ("iB", 1024))
}
UNITS |= {unit.replace("k", "K"): size for unit, size in UNITS.items() if unit.startswith("k")}
VALUE = re.compile(r"(\d{1,15})([a-zA-Z]{0,3})(?:/([a-z]+))?")


@dataclasses.dataclass(frozen=True)
class Quota:
    """``most`` of ``resource`` in each ``period``, which is "" for what is counted at once."""

    resource: str
    most: int
    period: str

    @property
    def name(self) -> str:
        return f"{self.resource}/{self.period}" if self.period else self.resource

    def __str__(self) -> str:
        return f"{self.resource}={self.most}" + (f"/{self.period}" if self.period else "")

    def window(self, now: float) -> tuple[int, int]:
        """Beginning and end of the period that holds ``now``; seconds since the epoch."""
        if self.period == "month":
            date = time.gmtime(now)
            following = (date.tm_year + date.tm_mon // 12, date.tm_mon % 12 + 1)
            begin, end = ((year, month, 1, 0, 0, 0) for year, month in ((date.tm_year, date.tm_mon), following))
            return calendar.timegm(begin), calendar.timegm(end)
        length = PERIODS[self.period]
        begins = int(now // length) * length
        return begins, begins + length


def parse_quota(resource: str, value: str) -> Quota:
    """Raises ValueError; the message names value and expectation."""
    match = VALUE.fullmatch(value)
    if match is None or match[2] not in UNITS or (match[2].endswith("B") and resource != "bytes"):
        sizes = " and a unit (MB, GiB)" if resource == "bytes" else ""
        raise ValueError(f"{resource}={value}: expected a number{sizes}{'' if resource == AT_ONCE else ' / a period'}")
    if resource == AT_ONCE and match[3] is not None:
        raise ValueError(f"{resource}={value}: it is counted at once, so it has no period")
    if resource != AT_ONCE and match[3] not in PERIODS:
        raise ValueError(f"{resource}={value}: expected a period, one of {', '.join('/' + one for one in PERIODS)}")
    return Quota(resource, int(match[1]) * UNITS[match[2]], match[3] or "")
