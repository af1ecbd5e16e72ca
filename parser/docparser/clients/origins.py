# SPDX-License-Identifier: Apache-2.0
"""From which host names and which pages this service may be asked, where the asker is a browser.

A page of a stranger can send requests to whatever its reader's machine reaches (cross-site request forgery), and a
name whose address it changes makes the browser take the answers for its own (DNS rebinding). So writes from foreign
pages are refused by ``Origin`` and ``Sec-Fetch-Site`` (Fetch Standard; W3C Fetch Metadata), and requests to foreign
names by ``Host``. A numeric address needs no name, so nobody can rebind it: every one is allowed.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import socket
from urllib.parse import urlsplit

from docparser.settings import Settings

HOST = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?)(?::(?P<port>\d{1,5}))?"
)
# Names that mean this machine on every machine: RFC 6761 for localhost, and what container engines add.
OWN = ("localhost", "*.localhost", "host.docker.internal", "host.containers.internal")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclasses.dataclass(frozen=True)
class Foreign:
    """Why a request is refused: a short ``reason`` for logs, and words for the client."""

    status: int
    reason: str
    words: str


class Origins:
    def __init__(self, settings: Settings) -> None:
        """Hosts are lower-case names, ``*.example.org`` for all below a name, ``*`` for all. Origins are as browsers
        send them, like ``https://example.org:8443``."""
        machine = socket.gethostname().lower()
        short = machine.partition(".")[0]
        hosts = [*OWN, machine, short, f"{short}.local", settings.bind.lower(), settings.published_address.lower()]
        origins = list(settings.allowed_origin_list)
        if settings.public_url:
            public = urlsplit(settings.public_url)
            hosts.append((public.hostname or "").lower())
            origins.append(f"{public.scheme}://{public.netloc.rpartition('@')[2]}".lower())
        hosts += settings.allowed_host_list
        self._hosts = frozenset(filter(None, hosts))
        self._suffixes = tuple(host[1:] for host in hosts if host.startswith("*."))
        self._origins = frozenset(origins)

    def check(self, method: str, headers: list[tuple[bytes, bytes]]) -> Foreign | None:
        """What is wrong with a request's Host, Origin and Sec-Fetch-Site; None if nothing is."""
        hosts = [value for name, value in headers if name == b"host"]
        host = ""
        if hosts:  # HTTP/1.0 has none; browsers always send one
            host = hosts[0].decode("latin-1").lower()
            match = HOST.fullmatch(host)
            if len(hosts) > 1 or match is None or int(match["port"] or 0) > 65535:
                return Foreign(400, "host", "Host: expected one host name or address, and perhaps a port.")
            if not self._knows(match["name"]):
                return Foreign(
                    421,
                    "host",
                    f"This service does not answer for the host {match['name'][:100]!r}. Use its address, or ask the "
                    "operator to add the name to PARSER_ALLOWED_HOSTS (or to set PUBLIC_URL).",
                )
        return None if method in SAFE_METHODS else self._check_origin(host, headers)

    def _check_origin(self, host: str, headers: list[tuple[bytes, bytes]]) -> Foreign | None:
        sent = dict(headers)
        origin = sent.get(b"origin", b"").decode("latin-1").lower()
        site = sent.get(b"sec-fetch-site", b"").decode("latin-1").lower()
        if origin and (origin in self._origins or "*" in self._origins):
            return None
        if site == "same-origin":  # said by the browser; no page can write this header
            return None
        own = bool(host) and origin in (f"http://{host}", f"https://{host}")
        if site in ("cross-site", "same-site") or (origin and not own):
            return Foreign(
                403,
                "origin",
                f"A web page of {origin[:100] or 'another site'!r} may not send this request. The operator can allow "
                "its origin with PARSER_ALLOWED_ORIGINS.",
            )
        return None

    def _knows(self, name: str) -> bool:
        name = name.rstrip(".")
        if name in self._hosts or "*" in self._hosts or name.endswith(self._suffixes):
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True
