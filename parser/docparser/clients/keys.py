# SPDX-License-Identifier: Apache-2.0
"""API keys as an operator writes them down: hash, name, expiry, priority, quotas.

    sha256:<64 hexadecimal digits> name=billing expires=2027-01-31 pages=1000/day connections=8  # a remark

Only the hash is needed. The service never has the key itself. The program makes keys of 256 random bits, so nobody can
search for a key by its hash; no salt or slow hash is needed.
"""

from __future__ import annotations

import calendar
import dataclasses
import datetime
import hashlib
import re
import secrets
import time

from docparser.contract.request_parts import PRIORITIES

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
HASH = re.compile(r"sha256:([0-9a-f]{64})")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ID = re.compile(r"[0-9a-f]{16}")
ATTRIBUTE = re.compile(r"([A-Za-z][A-Za-z-]*)=(.*)")
ATTRIBUTES = ("name", "id", "expires", "priority", *RESOURCES)


UNITS |= {unit.replace("k", "K"): size for unit, size in UNITS.items() if unit.startswith("k")}
AMOUNT = re.compile(r"(\d{1,15})([a-zA-Z]{0,3})(?:/([a-z]+))?")


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
    match = AMOUNT.fullmatch(value)
    if match is None or match[2] not in UNITS or (match[2].endswith("B") and resource != "bytes"):
        sizes = " and a unit (MB, GiB)" if resource == "bytes" else ""
        raise ValueError(f"{resource}={value}: expected a number{sizes}{'' if resource == AT_ONCE else ' / a period'}")
    if resource == AT_ONCE and match[3] is not None:
        raise ValueError(f"{resource}={value}: it is counted at once, so it has no period")
    if resource != AT_ONCE and match[3] not in PERIODS:
        raise ValueError(f"{resource}={value}: expected a period, one of {', '.join('/' + one for one in PERIODS)}")
    return Quota(resource, int(match[1]) * UNITS[match[2]], match[3] or "")


@dataclasses.dataclass(frozen=True)
class Key:
    """``id`` names the client: it owns the client's jobs and quotas. A rotated key keeps the id of the one before it.

    ``expires`` is in seconds since the epoch.
    """

    digest: str
    id: str
    name: str
    expires: float | None = None
    quotas: tuple[Quota, ...] = ()
    remark: str = ""
    priority: str = PRIORITIES[0]

    def expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now

    @property
    def entry(self) -> str:
        """The line that ``parse_entry`` reads."""
        words = [f"sha256:{self.digest}"]
        words += [f"name={self.name}"] if self.name != self.id else []
        words += [f"id={self.id}"] if self.id != self.digest[:16] else []
        words += [f"expires={shown_time(self.expires)}"] if self.expires is not None else []
        words += [f"priority={self.priority}"] if self.priority != PRIORITIES[0] else []
        words += [str(quota) for quota in self.quotas]
        return " ".join(words) + (f"  # {self.remark}" if self.remark else "")


def new_key() -> str:
    return secrets.token_urlsafe(32)


def digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def parse_entry(entry: str) -> Key:
    """Raises ValueError; the message never repeats the first word, which may be a key that somebody did not hash.

    A word without ``=`` begins a remark, as it always did; attributes after it are refused rather than overlooked.
    """
    first, *rests = entry.split(maxsplit=1)
    rest = rests[0] if rests else ""
    match = HASH.fullmatch(first)
    if match is None:
        raise ValueError("is not of the form sha256:<64 hexadecimal digits>; `python -m docparser.api_keys make`")
    rest, _, remark = rest.partition("#")
    found: dict[str, str] = {}
    quotas: list[Quota] = []
    words = rest.split()
    for number, word in enumerate(words):
        attribute = ATTRIBUTE.fullmatch(word)
        if attribute is None:
            late = [w for w in words[number:] if w.partition("=")[0] in ATTRIBUTES and "=" in w]
            if late:
                raise ValueError(
                    f"{late[0]!r} comes after a comment; move it before the comment, and begin the comment with #"
                )
            remark = " ".join(words[number:]) + (f" {remark.strip()}" if remark else "")
            break
        name, value = attribute[1], attribute[2]
        if name in RESOURCES:
            quota = parse_quota(name, value)
            if quota.name in {one.name for one in quotas}:
                raise ValueError(f"the quota {quota.name} is given twice")
            quotas.append(quota)
        elif name not in ATTRIBUTES:
            raise ValueError(f"{word[:80]!r} is not known; expected any of {', '.join(ATTRIBUTES)}; # begins a remark")
        elif name in found:
            raise ValueError(f"{name} is given twice")
        else:
            found[name] = value
    identity = found.get("id", match[1][:16])
    if not ID.fullmatch(identity):
        raise ValueError(f"id={identity[:80]}: expected 16 hexadecimal digits, as `list` shows them")
    name = found.get("name", identity)
    if not NAME.fullmatch(name):
        raise ValueError(f"name={name[:80]}: expected at most 64 letters, digits, dots, underscores or hyphens")
    expires = parse_time(found["expires"]) if "expires" in found else None
    priority = found.get("priority", PRIORITIES[0])
    if priority not in PRIORITIES:
        raise ValueError(f"priority={priority[:80]}: expected {' or '.join(PRIORITIES)}")
    return Key(match[1], identity, name, expires, tuple(quotas), remark.strip(), priority)


def parse_time(text: str) -> float:
    """A date (its beginning, UTC) or a time (UTC unless it names its zone). Raises ValueError."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"expires={text[:80]}: expected a date or a time like 2027-01-31 or 2027-01-31T12:00Z"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def shown_time(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
