# SPDX-License-Identifier: Apache-2.0
"""``python -m docparser.api_keys``: makes, lists, rotates and expires API keys."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import errno
import fcntl
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from docparser.clients.key_ring import KeyRing, own_file, read_file
from docparser.clients.keys import (
    NAME,
    RESOURCES,
    Key,
    Quota,
    digest,
    new_key,
    parse_entry,
    parse_quota,
    parse_time,
    shown_time,
)
from docparser.clients.usage import ledger_of
from docparser.contract.request_parts import PRIORITIES
from docparser.errors import NotReady
from docparser.settings import Settings, wrong

SPAN = re.compile(r"(\d{1,6})(min|h|d)")
SECONDS = {"min": 60, "h": 3600, "d": 86_400}


class KeyFile:
    """Changes are made one after the other, and a service never reads half of one. Methods raise OSError, NotReady."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, key: Key) -> None:
        with self._changing() as lines:
            lines.append(key.entry)

    def rotate(self, old: Key, new: Key, until: float) -> None:
        """Put ``new`` behind the client's other keys, which work until then at the latest."""
        with self._changing() as lines:
            self._end(lines, old.id, until)
            lines.append(new.entry)

    def expire(self, client: str, moment: float) -> None:
        with self._changing() as lines:
            self._end(lines, client, moment)

    def _end(self, lines: list[str], client: str, moment: float) -> None:
        for number, key in read_file(self.path, missing_ok=True):
            if key.id == client and (key.expires is None or key.expires > moment):
                lines[number - 1] = dataclasses.replace(key, expires=moment).entry

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[str]]:
        """The file's lines, which are written when the context ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            read_file(self.path, missing_ok=True)  # a file with a mistake is not written over
            lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
            yield lines
            self._write("".join(f"{line}\n" for line in lines))
            os.fsync(folder)
        finally:
            os.close(folder)

    def _write(self, text: str) -> None:
        new = self.path.with_name(f".{self.path.name}-{secrets.token_hex(8)}")
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                if self.path.exists():  # root may work on the file of a service's user
                    before = self.path.stat()
                    os.fchmod(file.fileno(), before.st_mode & 0o777)
                    with contextlib.suppress(PermissionError):
                        os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.replace(new, self.path)
        except OSError as exc:
            new.unlink(missing_ok=True)
            if exc.errno != errno.EBUSY:
                raise
            self.path.write_text(text, encoding="utf-8")  # one file mounted into a container cannot be replaced


def main(words: list[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    try:
        settings = Settings()
        path = arguments.file or settings.api_keys_file or own_file(settings)
        status: int = arguments.run(arguments, KeyFile(path.expanduser().absolute()), settings)
    except ValidationError as exc:
        print("\n".join(f"docparser.api_keys: {words}" for words in wrong(exc)), file=sys.stderr)
        return 2
    except (NotReady, OSError, ValueError) as exc:
        print(f"docparser.api_keys: {exc}", file=sys.stderr)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m docparser.api_keys",
        description="API keys. Their entries are kept in PARSER_API_KEYS_FILE, or without it in the file api_keys in "
        "PARSER_DATA_DIR, which the service reads as well. Running services notice a change within a second.",
    )
    parser.add_argument("--file", type=Path, metavar="PATH", help="work on this file instead")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    make = commands.add_parser("make", help="make a key; the key is printed once, on standard output")
    make.add_argument("--name", help="the client's name in metrics and in the audit log")
    _add_expiry(make, "when the key expires; default: never")
    make.add_argument(
        "--quota",
        action="append",
        default=[],
        metavar="WHAT=N/PERIOD",
        help="like pages=1000/day, bytes=5GiB/month, jobs=100/hour, requests=600/minute, connections=8; repeatable",
    )
    make.add_argument(
        "--priority",
        choices=PRIORITIES,
        default=PRIORITIES[0],
        help="bulk: its pages wait for those of interactive keys; default: interactive",
    )
    make.add_argument(
        "--print", action="store_true", help="change no file: the entry on standard output, the key on standard error"
    )
    make.set_defaults(run=_make)

    show = commands.add_parser("list", help="show all keys, their quotas, and what was used of them")
    show.set_defaults(run=_list)

    rotate = commands.add_parser(
        "rotate", help="make another key for a client, which keeps its jobs and quotas; the old one expires"
    )
    rotate.add_argument("client", help="name or id")
    rotate.add_argument("--overlap", default="7d", metavar="SPAN", help="how long the old key works; default: 7d")
    _add_expiry(rotate, "when the new key expires; default: when the old one would have")
    rotate.set_defaults(run=_rotate)

    expire = commands.add_parser("expire", help="end a client's keys, by default now")
    expire.add_argument("client", help="name or id")
    _add_expiry(expire, "when; default: now")
    expire.set_defaults(run=_expire)
    return parser


def _add_expiry(parser: argparse.ArgumentParser, words: str) -> None:
    parser.add_argument(
        "--expires", metavar="WHEN", help=f"a date, a time (UTC), or a span like 90d, 12h, 30min; {words}"
    )


def _make(arguments: argparse.Namespace, file: KeyFile, settings: Settings) -> int:
    key = new_key()
    known = digest(key)
    name = arguments.name or known[:16]
    if not NAME.fullmatch(name):
        raise ValueError(f"--name {name!r}: expected at most 64 letters, digits, dots, underscores or hyphens")
    expires = _moment(arguments.expires) if arguments.expires else None
    quotas = tuple(_quota(text) for text in arguments.quota)
    entry = Key(known, known[:16], name, expires, quotas, priority=arguments.priority)
    parse_entry(entry.entry)
    if arguments.print:
        print(f"key, for the client:              {key}", file=sys.stderr)
        print(entry.entry)
        return 0
    if any(name in (other.name, other.id) for other in _all_keys(settings, file)):
        raise ValueError(f"--name {name!r}: there is such a client; use `rotate {name}` for another key of it")
    file.add(entry)
    print(
        f"the key of {name} is kept as a hash in {file.path}; this is the only time that it is shown:", file=sys.stderr
    )
    print(key)
    return 0


def _list(arguments: argparse.Namespace, file: KeyFile, settings: Settings) -> int:
    now = time.time()
    ledger = ledger_of(settings)
    keys = _all_keys(settings, file)
    for key in keys:
        state = "valid" if key.expires is None else f"valid until {shown_time(key.expires)}"
        if key.expired(now):
            state = f"expired at {shown_time(key.expires or 0)}"
        used = [
            f"{quota} ({ledger.used(key.id, quota)} used)" if ledger.known() and quota.period else str(quota)
            for quota in key.quotas
        ]
        more = [*(["bulk"] if key.priority == "bulk" else []), *used, *([f"# {key.remark}"] if key.remark else [])]
        print("  ".join([f"{key.name:<24}", key.id, f"{state:<34}", *more]))
    ledger.close()
    if not keys:
        print("there are no keys", file=sys.stderr)
    return 0


def _rotate(arguments: argparse.Namespace, file: KeyFile, settings: Settings) -> int:
    until = _moment(arguments.overlap)
    old = _newest(arguments.client, file, settings)
    expires = _moment(arguments.expires) if arguments.expires else old.expires
    if not arguments.expires and old.expired(time.time()):
        raise ValueError(
            f"{arguments.client!r}: its keys expired at {shown_time(old.expires or 0)}; expected --expires WHEN, which "
            "lets this client in again"
        )
    key = new_key()
    file.rotate(old, dataclasses.replace(old, digest=digest(key), expires=expires), until)
    ends = until if old.expires is None else min(until, old.expires)
    lasts = "never expires" if expires is None else f"expires at {shown_time(expires)}"
    print(f"the previous key of {old.name} ends at {shown_time(ends)}; this one {lasts}:", file=sys.stderr)
    print(key)
    return 0


def _expire(arguments: argparse.Namespace, file: KeyFile, settings: Settings) -> int:
    moment = _moment(arguments.expires) if arguments.expires else time.time()
    old = _newest(arguments.client, file, settings)
    file.expire(old.id, moment)
    print(f"the keys of {old.name} expire at {shown_time(moment)}", file=sys.stderr)
    return 0


def _newest(client: str, file: KeyFile, settings: Settings) -> Key:
    """The last key of a client in the file. Raises ValueError."""
    here = [key for _, key in read_file(file.path, missing_ok=True) if client in (key.name, key.id)]
    if here:
        return here[-1]
    if any(client in (key.name, key.id) for key in _all_keys(settings, file)):
        raise ValueError(f"{client!r} is not in {file.path}; change its entry in PARSER_API_KEYS or name its --file")
    raise ValueError(f"there is no key of {client!r}; `list` shows names and ids")


def _all_keys(settings: Settings, file: KeyFile) -> list[Key]:
    named = settings.api_keys_file
    if named is not None and named.expanduser().absolute() == file.path:
        named = None  # it need not be there: the first key makes it
    return KeyRing(settings.api_keys, named, file.path).keys()


def _quota(text: str) -> Quota:
    resource, _, value = text.partition("=")
    if resource not in RESOURCES:
        raise ValueError(f"--quota {text!r}: expected one of {', '.join(RESOURCES)}, like pages=1000/day")
    return parse_quota(resource, value)


def _moment(text: str) -> float:
    """A date, a time, or a span from now, in seconds since the epoch. Raises ValueError."""
    span = SPAN.fullmatch(text)
    return time.time() + int(span[1]) * SECONDS[span[2]] if span else parse_time(text)


if __name__ == "__main__":
    sys.exit(main())
