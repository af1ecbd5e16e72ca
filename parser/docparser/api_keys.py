# SPDX-License-Identifier: Apache-2.0
"""API keys: the service knows only their SHA-256, and compares that.

Keys are made here, of 256 random bits, so a plain hash cannot be searched; no salt or slow hash is needed.
``python -m docparser.api_keys`` makes one.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
import sys
from pathlib import Path

from docparser.errors import NotReady
from docparser.settings import Settings

ENTRY = re.compile(r"sha256:([0-9a-f]{64})")
PUBLIC_PATHS = ("/", "/health", "/health/ready")
# The web page asks for a key itself; results of jobs are fetched by URLs that cannot be guessed.
PUBLIC_GET_PREFIXES = ("/ui/", "/api/v2/ocr/results/")
PROBED = "/layout-parsing"  # clients probe it with GET and expect 405


def digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


class ApiKeys:
    """Empty: every request passes."""

    def __init__(self, digests: frozenset[str]) -> None:
        self._digests = digests

    def __bool__(self) -> bool:
        return bool(self._digests)

    @classmethod
    def of(cls, settings: Settings) -> ApiKeys:
        """Raises NotReady when an entry is no hash, and when others than this machine can reach a service without
        keys."""
        if settings.auth == "off":
            return cls(frozenset())
        entries = [entry.strip() for entry in settings.api_keys.split(",") if entry.strip()]
        entries = [("PARSER_API_KEYS", number, entry) for number, entry in enumerate(entries, 1)]
        if settings.api_keys_file is not None:
            entries += _lines(settings.api_keys_file)
        for variable, number, entry in entries:
            if not ENTRY.fullmatch(entry):
                raise NotReady(
                    f"{variable}: entry {number} is not of the form sha256:<64 hexadecimal digits>; "
                    "`python -m docparser.api_keys` makes a key and prints its entry"
                )
        keys = cls(frozenset(entry.removeprefix("sha256:") for *_, entry in entries))
        address = settings.published_address or settings.bind
        if not keys and not is_loopback(address):
            raise NotReady(
                f"The service would be open to everyone who can reach {address}: set PARSER_API_KEYS or "
                "PARSER_API_KEYS_FILE, or PARSER_AUTH=off if something in front of it asks for keys"
            )
        return keys

    def owner(self, headers: dict[bytes, bytes]) -> str | None:
        """The key's id (the beginning of its hash), or None if no known one was sent as ``Authorization: Bearer KEY``,
        ``Authorization: token KEY`` or ``X-Api-Key: KEY``."""
        kind, _, sent = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() not in ("bearer", "token"):
            sent = headers.get(b"x-api-key", b"").decode("latin-1")
        found = digest(sent.strip()) if sent.strip() else ""
        return found[:16] if found in self._digests else None


def needs_key(method: str, path: str) -> bool:
    if path in PUBLIC_PATHS or (method in ("GET", "HEAD") and path.startswith(PUBLIC_GET_PREFIXES)):
        return False
    return method == "POST" or path != PROBED


def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def _lines(path: Path) -> list[tuple[str, int, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as exc:
        raise NotReady(f"PARSER_API_KEYS_FILE: {path} cannot be read ({exc.strerror})") from None
    # "sha256:... who has it": the rest of a line is for people.
    numbered = [
        ("PARSER_API_KEYS_FILE", number, line.split()[0]) for number, line in enumerate(lines, 1) if line.split()
    ]
    return [entry for entry in numbered if not entry[2].startswith("#")]


if __name__ == "__main__":
    new = secrets.token_urlsafe(32)
    print(f"key, for the client:              {new}", file=sys.stderr)
    print(f"sha256:{digest(new)}")
