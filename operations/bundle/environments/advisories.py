# SPDX-License-Identifier: Apache-2.0
"""Compare every lock with published advisories: `python -m bundle.environments.advisories [LOCK...]`.

ADVISORIES names the advisories: an archive or a folder of records in the OSV format (one JSON file each), as the OSV
database exports them for the ecosystem PyPI, or the https address of such an archive. The file `accepted.toml` beside
the locks lists advisories that are known and do not matter here, each with the reason and the day of the next look.

Exit status: 0 nothing found, 1 something found, 2 a setting is wrong, 4 the advisories cannot be reached: that is never
taken for "nothing found".
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import tempfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from bundle.environments.environment import split_entries
from bundle.paths import REQUIREMENTS, VALUES, shown
from bundle.progress import say
from tool_errors import FAILED, ServiceError, UsageError, run

ACCEPTED = REQUIREMENTS / "accepted.toml"
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
TIMEOUT_S = 60
MOST_BYTES = 1 << 30  # of an archive that an address gives


@dataclass(frozen=True, order=True)
class Match:
    """A locked package that an advisory is about. `fixed` are the versions that mend it, as far as they are known."""

    package: str
    version: str
    identity: str
    aliases: tuple[str, ...]
    fixed: tuple[str, ...]
    summary: str


def normal(name: str) -> str:
    """A package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str) -> list[tuple[str, str]]:
    """Names and versions of a lock, without local parts (`+cpu`)."""
    found = (PIN.match(entry) for entry in split_entries(lock))
    return [(normal(match["name"]), match["version"].partition("+")[0]) for match in found if match]


@contextmanager
def opened(source: str) -> Iterator[Path]:
    """The folder or archive that ADVISORIES names, as a local path. Raises UsageError, ServiceError."""
    if not source:
        raise ServiceError(
            "ADVISORIES is not set, so nothing was checked; expected a folder or ZIP of OSV records, or its address"
        )
    if not re.match(r"[a-z]+://", source):
        path = Path(source).expanduser()
        if not path.exists():
            raise ServiceError(f"ADVISORIES: {source} is not there, so nothing was checked")
        yield path
        return
    if not source.startswith("https://"):
        raise UsageError(f"ADVISORIES is {source!r}; expected a path or an address that begins with https://")
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        try:
            with urllib.request.urlopen(source, timeout=TIMEOUT_S) as answer:
                while piece := answer.read(1 << 20):
                    if file.tell() + len(piece) > MOST_BYTES:
                        raise ServiceError(f"ADVISORIES: {source} holds more than {MOST_BYTES >> 20} MiB")
                    file.write(piece)
        except OSError as error:
            raise ServiceError(
                f"ADVISORIES: {source} cannot be reached ({error}), so nothing was checked; fetch the archive "
                "elsewhere and name the file"
            ) from error
        file.flush()
        yield Path(file.name)


def records(source: Path) -> Iterator[dict[str, Any]]:
    """The OSV records of a folder or an archive. Raises ServiceError for what cannot be read."""
    name = str(source)
    try:
        if source.is_dir():
            for path in sorted(source.rglob("*.json")):
                name = str(path)
                yield record(path.read_bytes())
        else:
            with zipfile.ZipFile(source) as archive:
                for name in sorted(archive.namelist()):
                    if name.endswith(".json"):
                        yield record(archive.read(name))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ServiceError(f"ADVISORIES: {name} cannot be read ({error}), so nothing was checked") from error


def record(data: bytes) -> dict[str, Any]:
    """One record; raises ValueError for what is none."""
    found = json.loads(data)
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        raise ValueError("it is no OSV record: the key id is missing")
    return found


def by_package(source: Path) -> dict[str, list[dict[str, Any]]]:
    """Package -> its records, without withdrawn ones. Raises ServiceError where there is none at all."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in records(source):
        for affected in () if one.get("withdrawn") else one.get("affected", ()):
            package = affected.get("package", {})
            if package.get("ecosystem") == "PyPI":
                found.setdefault(normal(package.get("name", "")), []).append({**one, "affected": [affected]})
    if not found:
        raise ServiceError(f"ADVISORIES: {source} holds no record about a package of PyPI, so nothing was checked")
    return found


def matches(advisories: dict[str, list[dict[str, Any]]], locked: Sequence[tuple[str, str]]) -> Iterator[Match]:
    """The advisories that are about the locked versions."""
    for name, version in locked:
        for one in advisories.get(name, ()):
            (affected,) = one["affected"]
            if is_affected(affected, version):
                yield Match(
                    name,
                    version,
                    one["id"],
                    tuple(one.get("aliases") or ()),
                    tuple(fixed_in(affected)),
                    (one.get("summary") or one.get("details") or "").strip().partition("\n")[0],
                )


def is_affected(affected: dict[str, Any], version: str) -> bool:
    """OSV's evaluation: listed by name, or inside of a range between what introduced it and what ended it."""
    if version in (affected.get("versions") or ()):
        return True
    try:
        ours = Version(version)
        return any(
            in_range(one.get("events", ()), ours)
            for one in affected.get("ranges") or ()
            if one.get("type") in ("ECOSYSTEM", "SEMVER")
        )
    except InvalidVersion:
        # Not told by its number; somebody should look.
        return True


def in_range(events: Sequence[dict[str, str]], version: Version) -> bool:
    """Whether a version lies in a range, whose events may stand in any order."""

    def place(event: dict[str, str]) -> tuple[Version, bool]:
        (_, text), *_ = event.items()
        return Version("0.dev0" if text == "0" else text), "last_affected" in event

    inside = False
    for event in sorted(events, key=place):
        at, _ = place(event)
        if "introduced" in event and version >= at:
            inside = True
        elif ("fixed" in event and version >= at) or ("last_affected" in event and version > at):
            inside = False
    return inside


def fixed_in(affected: dict[str, Any]) -> list[str]:
    events = (event for one in affected.get("ranges") or () for event in one.get("events", ()))
    return [event["fixed"] for event in events if "fixed" in event and "." in event["fixed"]]


def accepted(file: Path, today: datetime.date) -> dict[str, str]:
    """Identity of each accepted advisory with its reason, without those whose day has come. Raises UsageError."""
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{shown(file)} cannot be read: {error}") from error
    for identity, entry in entries.items():
        if not (isinstance(entry, dict) and entry.get("reason") and isinstance(entry.get("until"), datetime.date)):
            raise UsageError(f"{shown(file)}: {identity} needs a reason and until, a date; got {entry!r}")
    return {identity: entry["reason"] for identity, entry in entries.items() if entry["until"] > today}


def audit(names: Sequence[str], today: datetime.date) -> int:
    """Print what is found; returns the exit status. Raises ToolError."""
    locks = {path.stem: path for path in sorted(REQUIREMENTS.glob("*.txt"))}
    if unknown := [name for name in names if name not in locks]:
        raise UsageError(f"no lock {unknown[0]!r}; expected one of {', '.join(locks)}")
    known = accepted(ACCEPTED, today)
    with opened(VALUES.get("ADVISORIES", "")) as source:
        advisories = by_package(source)
    found: dict[Match, list[str]] = {}
    count = 0
    for name in names or locks:
        locked = pins(locks[name].read_text())
        count += len(locked)
        for match in matches(advisories, locked):
            found.setdefault(match, []).append(name)
    open_ones = 0
    for match, where in sorted(found.items()):
        reason = next((known[one] for one in (match.identity, *match.aliases) if one in known), None)
        open_ones += reason is None
        ending = f"accepted: {reason}" if reason else f"fixed in {', '.join(match.fixed) or 'no version yet'}"
        names_of = " ".join((match.identity, *match.aliases))
        print(f"{match.package}=={match.version} ({', '.join(where)}): {names_of}: {match.summary}; {ending}")
    say(f"{count} pins of {len(names or locks)} locks: {open_ones} open advisories, {len(found) - open_ones} accepted")
    return FAILED if open_ones else 0


if __name__ == "__main__":
    sys.exit(run(lambda: audit(sys.argv[1:], datetime.date.today())))
