# SPDX-License-Identifier: Apache-2.0
"""API keys as an operator writes them down: hash, name, expiry, quotas.

    sha256:<64 hexadecimal digits> name=billing expires=2027-01-31 pages=1000/day connections=8  # a remark

Only the hash is needed. The service never has the key itself. The program makes keys of 256 random bits, so nobody can
search for a key by its hash; no salt or slow hash is needed.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
import secrets

from docparser.clients.quotas import RESOURCES, Quota, parse_quota

HASH = re.compile(r"sha256:([0-9a-f]{64})")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ID = re.compile(r"[0-9a-f]{16}")
ATTRIBUTE = re.compile(r"([A-Za-z][A-Za-z-]*)=(.*)")
ATTRIBUTES = ("name", "id", "expires", *RESOURCES)


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

    def expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now

    @property
    def entry(self) -> str:
        """The line that ``parse_entry`` reads."""
        words = [f"sha256:{self.digest}"]
        words += [f"name={self.name}"] if self.name != self.id else []
        words += [f"id={self.id}"] if self.id != self.digest[:16] else []
        words += [f"expires={shown_time(self.expires)}"] if self.expires is not None else []
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
                raise ValueError(f"{late[0]!r} stands after a remark; put attributes before it, and # before a remark")
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
    return Key(match[1], identity, name, expires, tuple(quotas), remark.strip())


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
