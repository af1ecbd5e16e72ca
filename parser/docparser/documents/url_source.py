# SPDX-License-Identifier: Apache-2.0
"""Fetches documents by URL, only from hosts that the operator lists, and never from inside the network.

A server that fetches what a client names can be turned against its own network (server-side request forgery, OWASP
A10:2021). So each address, also after a redirect, must be public and belong to a listed host. The check is made where
the connection is made, so a name that resolves to another address a moment later gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from docparser.errors import DocumentTooLarge, InvalidDocument, InvalidRequest
from docparser.settings import Settings

REDIRECTS = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 5
Write = Callable[[bytes], Awaitable[object]]
PORTS = {"http": 80, "https": 443}


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet; an address that wraps another one is public if both are."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in ipaddress.ip_network("64:ff9b::/96"):  # NAT64, RFC 6052
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None and not is_public(str(inner)):
            return False
        if ip.ipv4_mapped:
            return True
    return ip.is_global and not ip.is_multicast


class _Forbidden(OSError):
    """The host resolves to an address that is not public."""


class GuardedResolver(AbstractResolver):
    """Resolves names; refuses a name if any of its addresses is not allowed."""

    def __init__(self, allowed: Callable[[str], bool]) -> None:
        self._allowed = allowed

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        for *_, address in found:
            if not self._allowed(str(address[0])):
                raise _Forbidden(f"{host} is not a public address")
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=port, family=kind, proto=proto, flags=socket.AI_NUMERICHOST
            )
            for kind, _, proto, _, address in found
        ]

    async def close(self) -> None:
        pass


class UrlSource:
    """``allowed`` says whether an address may be connected to; tests replace it, because they have only loopback."""

    def __init__(self, settings: Settings, allowed: Callable[[str], bool] = is_public) -> None:
        self._hosts = [host.strip().lower() for host in settings.url_hosts.split(",") if host.strip()]
        self._max_bytes = settings.max_body_mib << 20
        self._max_mib = settings.max_body_mib
        self._timeout_s = settings.url_timeout_s
        self._allowed = allowed
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch(self, url: str, write: Write) -> None:
        """The document's bytes go to ``write``, piece by piece.

        Raises InvalidRequest, InvalidDocument, DocumentTooLarge, and what ``write`` raises of ParserError.
        """
        if not self._hosts:
            raise InvalidRequest(
                "file: this service fetches no URLs (PARSER_URL_HOSTS is empty); send the document itself, in base64"
            )
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._follow(url, write)
        except TimeoutError:
            raise InvalidDocument(
                f"file: the URL was not fetched within {self._timeout_s:.0f} s (PARSER_URL_TIMEOUT_S)"
            ) from None
        except aiohttp.ClientConnectorError as exc:
            if isinstance(exc.os_error, _Forbidden):
                raise InvalidRequest(f"file: {exc.os_error}; only public hosts are fetched from") from None
            raise InvalidDocument("file: the URL's host cannot be reached") from None
        except (aiohttp.ClientError, ValueError, OSError) as exc:
            raise InvalidDocument(f"file: the URL cannot be fetched ({type(exc).__name__})") from None

    async def _follow(self, url: str, write: Write) -> None:
        for _ in range(MAX_REDIRECTS + 1):
            self._check(url)
            if self._session is None:
                connector = aiohttp.TCPConnector(
                    resolver=GuardedResolver(self._allowed), use_dns_cache=False, force_close=True
                )
                self._session = aiohttp.ClientSession(
                    connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
                )
            async with self._session.get(url, allow_redirects=False) as response:
                if response.status in REDIRECTS and "Location" in response.headers:
                    url = urljoin(url, response.headers["Location"])
                    continue
                if response.status != 200:
                    raise InvalidDocument(f"file: the URL's host answers {response.status}")
                return await self._read(response, write)
        raise InvalidDocument(f"file: the URL redirects more than {MAX_REDIRECTS} times")

    async def _read(self, response: aiohttp.ClientResponse, write: Write) -> None:
        size = 0
        async for part in response.content.iter_chunked(1 << 18):
            size += len(part)
            if size > self._max_bytes:
                raise DocumentTooLarge(f"file: the URL holds more than {self._max_mib} MiB (PARSER_MAX_BODY_MIB)")
            await write(part)

    def _check(self, url: str) -> None:
        """Scheme, host and port, before anything is resolved. Raises InvalidRequest."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidRequest("file: the URL cannot be read") from None
        host = (parts.hostname or "").rstrip(".").lower()
        if parts.scheme not in PORTS or not host or parts.username or parts.password:
            raise InvalidRequest("file: the URL must be http or https, with a host, and without user and password")
        if not any(_matches(entry, host, port or PORTS[parts.scheme], parts.scheme) for entry in self._hosts):
            raise InvalidRequest(f"file: URLs of {host} are not fetched; the operator lists hosts in PARSER_URL_HOSTS")
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return
        if not self._allowed(str(address)):  # aiohttp connects to a plain address without asking the resolver
            raise InvalidRequest(f"file: {host} is not a public address; only public hosts are fetched from")


def _matches(entry: str, host: str, port: int, scheme: str) -> bool:
    """``entry``: ``host``, ``*.domain``, or either with ``:port``. Without a port, only the default port of the scheme
    matches."""
    name, colon, wanted = entry.rpartition(":") if entry.rpartition(":")[2].isdigit() else (entry, "", "")
    if port != (int(wanted) if colon else PORTS[scheme]):
        return False
    return host.endswith(name[1:]) and host != name[2:] if name.startswith("*.") else host == name
