# SPDX-License-Identifier: Apache-2.0
"""The hosts that an operator lists in a setting, and whether an address belongs to one of them."""

from __future__ import annotations

import contextlib

from yarl import URL

PORTS = {"http": 80, "https": 443}


class Refused(Exception):
    """The address may not be asked; the message says why, and may be shown to the client."""


class ListedHosts:
    """``text`` is the value of ``setting``: ``host``, ``*.domain``, or either with ``:port``, divided by commas.
    Without a port, only the default port of the scheme matches."""

    def __init__(self, text: str, setting: str) -> None:
        self._entries = [_split(entry.strip().lower()) for entry in text.split(",") if entry.strip()]
        self._setting = setting

    def __bool__(self) -> bool:
        return bool(self._entries)

    def check(self, url: str) -> URL:
        """``url`` as it will be asked: the client for HTTP reads it no second time. Nothing is resolved.

        Raises Refused.
        """
        try:
            parsed = URL(url)
            host = (parsed.host or "").rstrip(".").lower()
        except (ValueError, IndexError):  # yarl 1.x: IndexError for http://[]@
            raise Refused("the URL cannot be read") from None
        if parsed.scheme not in PORTS or not host or parsed.user or parsed.password:
            raise Refused("the URL must be http or https, with a host, and without user and password")
        port = parsed.port or PORTS[parsed.scheme]
        if not any(_matches(name, wanted or PORTS[parsed.scheme], host, port) for name, wanted in self._entries):
            raise Refused(f"port {port} of {host} is not asked; the operator lists hosts in {self._setting}")
        return parsed


def _split(entry: str) -> tuple[str, int | None]:
    """Name and port of an entry; an IPv6 address stands in brackets."""
    name, colon, port = entry.rpartition(":")
    if not colon or not port.isdigit() or entry.endswith("]"):
        name, port = entry, ""
    with contextlib.suppress(ValueError, IndexError):  # an IPv6 address has several spellings
        name = (URL(f"http://{name}/").host or "") if name.startswith("[") else name
    return name, int(port) if port else None


def _matches(name: str, wanted: int, host: str, port: int) -> bool:
    if port != wanted:
        return False
    return host.endswith(name[1:]) and host != name[2:] if name.startswith("*.") else host == name
