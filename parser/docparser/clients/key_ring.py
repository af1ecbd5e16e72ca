# SPDX-License-Identifier: Apache-2.0
"""The known keys: from PARSER_API_KEYS, PARSER_API_KEYS_FILE, and the file ``api_keys`` in PARSER_DATA_DIR.

Changed files are read again within a second, so a key is added, changed and revoked without a restart. A file with a
mistake changes nothing: the keys stay as they were, and the log names the line.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from docparser.clients.keys import Key, digest, parse_entry
from docparser.errors import NotReady
from docparser.settings import Settings
from env_values import open_to

log = logging.getLogger(__name__)

OWN_FILE = "api_keys"
LOOK_S = 1.0  # between two looks whether a file has changed
Stamp = tuple[int, int, int, int] | None


def own_file(settings: Settings) -> Path:
    """Where ``python -m docparser.api_keys`` keeps keys unless PARSER_API_KEYS_FILE names another file."""
    return settings.data_dir.expanduser().absolute() / OWN_FILE


class KeyRing:
    """A ring with a key or a file asks for keys from then on: an emptied file revokes them and opens nothing, after a
    restart too.

    A file that was there once is required from then on. It goes with its volume, and its clients are told that jobs
    wait, not that nobody knows their keys.
    """

    def __init__(self, listed: str = "", required_file: Path | None = None, optional_file: Path | None = None) -> None:
        """``listed`` are entries that commas divide. Raises NotReady if an entry is wrong or a file is missing."""
        self._listed = listed
        self._required = {required_file}
        self._files = [path for path in dict.fromkeys((required_file, optional_file)) if path is not None]
        self._stamps = self._look()
        self._keys, self._clients = _index(self._read())
        self._asks = bool(self._keys) or any(self._stamps)

    @classmethod
    def of(cls, settings: Settings) -> KeyRing:
        """Raises NotReady, also if other machines or web pages can reach a service without keys."""
        if settings.auth == "off":
            return cls()
        ring = cls(settings.api_keys, settings.api_keys_file, own_file(settings))
        address = settings.published_address or settings.bind
        others = open_to(address, settings.public_url, settings.allowed_origin_list)
        if others and not ring.keys():
            raise NotReady(
                f"The service would be open to {others}: make a key with `python -m docparser.api_keys make`, or set "
                "PARSER_API_KEYS or PARSER_API_KEYS_FILE, or PARSER_AUTH=off if something in front of it asks for keys"
            )
        if ring and not ring.keys():
            log.warning("nobody may ask, because the file of keys has none: make a key, or remove the file and restart")
        return ring

    def __bool__(self) -> bool:
        """Whether a key is needed."""
        return self._asks

    def find(self, sent: str) -> Key | None:
        """The entry of a key that a client sent; it may have expired."""
        return self._keys.get(digest(sent)) if sent else None

    def client(self, identity: str) -> Key | None:
        """The newest key of a client, which has its name and its quotas."""
        return self._clients.get(identity)

    def keys(self) -> list[Key]:
        return list(self._keys.values())

    async def watch(self) -> None:
        """Read changed files again, until it is cancelled: in a thread, for the network that holds them may be away."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await asyncio.to_thread(self.look)
            except Exception:
                log.exception("the files of keys cannot be watched")

    def look(self) -> None:
        """Read the files again if one has changed."""
        stamps = self._look()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._keys, self._clients = _index(self._read())
        except NotReady as exc:
            log.error("the keys stay as they were: %s", exc)
            return
        self._asks = self._asks or bool(self._keys) or any(stamps)
        log.info("keys were read again: %d", len(self._keys))

    def _look(self) -> list[Stamp]:
        stamps = [_stamp(path) for path in self._files]
        self._required |= {path for path, stamp in zip(self._files, stamps, strict=True) if stamp}
        return stamps

    def _read(self) -> list[Key]:
        entries = [entry.strip() for entry in self._listed.split(",") if entry.strip()]
        keys = [_key(f"PARSER_API_KEYS: entry {number}", entry) for number, entry in enumerate(entries, 1)]
        for path in self._files:
            keys += [key for _, key in read_file(path, missing_ok=path not in self._required)]
        _check(keys)
        return keys


def read_file(path: Path, *, missing_ok: bool) -> list[tuple[int, Key]]:
    """The keys of a file, each with the number of its line. Raises NotReady."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        if missing_ok and isinstance(exc, FileNotFoundError):
            return []
        raise NotReady(f"PARSER_API_KEYS_FILE: {path} cannot be read ({exc})") from None
    return [
        (number, _key(f"PARSER_API_KEYS_FILE: {path}, line {number}", line))
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]


def _key(place: str, entry: str) -> Key:
    try:
        return parse_entry(entry)
    except ValueError as exc:
        raise NotReady(f"{place}: {exc}") from None


def _check(keys: list[Key]) -> None:
    """A name belongs to one client, because metrics and the audit log know clients by their names."""
    owners: dict[str, str] = {}
    for key in keys:
        if owners.setdefault(key.name, key.id) != key.id:
            raise NotReady(
                f"API keys: the name {key.name!r} belongs to two clients, {owners[key.name]} and {key.id}; choose "
                f"another name, or add id={owners[key.name]} to the second key if both are one client's"
            )


def _index(keys: list[Key]) -> tuple[dict[str, Key], dict[str, Key]]:
    return {key.digest: key for key in keys}, {key.id: key for key in keys}


def _stamp(path: Path) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
