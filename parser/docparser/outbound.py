# SPDX-License-Identifier: Apache-2.0
"""Requests to addresses that clients name: to listed hosts only, and never into the network behind them.

A server that asks what a client names can be turned against its own network (server-side request forgery, OWASP
A10:2021). So each address must belong to a host that an operator lists in a setting, and lead to an allowed network.
The network is checked where the connection is made, and the address that was checked is the one that is connected to:
a name that resolves to another address a moment later gains nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

Allowed = Callable[[str], bool]
PORTS = {"http": 80, "https": 443}
THREADS = 32  # names that are looked up at once
RESOLVE_S = 5.0  # for a look at a name ahead of its first request
# IANA gives IPv6 addresses of the public internet from the first alone, where Python 3.11 does not know the last one,
# of documentation (RFC 9637). What lies outside wraps IPv4 addresses in several ways, or has served its time.
GLOBAL_V6, NAT64, SHOWN_V6 = (ipaddress.IPv6Network(text) for text in ("2000::/3", "64:ff9b::/96", "3fff::/20"))


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet; an address that wraps another one is public if both are."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped or ip in NAT64:  # RFC 6052
            return is_public(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))
        if ip not in GLOBAL_V6 or ip in SHOWN_V6 or (ip.sixtofour and not is_public(str(ip.sixtofour))):
            return False
    return ip.is_global and not ip.is_multicast


def public_or_in(networks: Iterable[str]) -> Allowed:
    """The rule that lets public addresses pass, and those in ``networks`` (CIDR)."""
    known = [ipaddress.ip_network(network) for network in networks]

    def allowed(address: str) -> bool:
        ip = ipaddress.ip_address(address.partition("%")[0])
        return is_public(address) or any(ip in network for network in known)

    return allowed


class AddressRefused(Exception):
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

        Raises AddressRefused.
        """
        try:
            parsed = URL(url)
            host = (parsed.host or "").rstrip(".").lower()
            (parsed.raw_host or "").encode("idna")  # as the resolver will: no label is empty or over 63 characters
        except (ValueError, IndexError):  # yarl 1.x: IndexError for http://[]@
            raise AddressRefused("the URL cannot be read") from None
        if parsed.scheme not in PORTS or not host or parsed.user or parsed.password:
            raise AddressRefused("the URL must be http or https, with a host, and without user and password")
        port = parsed.port or PORTS[parsed.scheme]
        if not any(_matches(name, wanted or PORTS[parsed.scheme], host, port) for name, wanted in self._entries):
            raise AddressRefused(f"port {port} of {host} is not allowed; the operator lists hosts in {self._setting}")
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


class NotPublic(AddressRefused):
    """The host has an address that may not be connected to."""


class NoSuchHost(AddressRefused):
    """The host's name has no address."""


class Unreachable(Exception):
    """The host did not answer, or not in HTTP."""


class _Forbidden(OSError):
    """The same as NotPublic, in the form that goes through aiohttp."""


class GuardedResolver(AbstractResolver):
    """Resolves names; refuses a name if any of its addresses is not allowed.

    Threads of its own: a name server that does not answer must not take those of the service. A name that is being
    looked up is not looked up once more.
    """

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="names")
        self._lookups: dict[tuple[str, int, int], asyncio.Future[list[Any]]] = {}

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        found = await asyncio.shield(self._lookup(host, port, family))
        for *_, address in found:
            if not self._allowed(str(address[0])):
                raise _Forbidden(f"{host} is not a public address")
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=port, family=kind, proto=proto, flags=socket.AI_NUMERICHOST
            )
            for kind, _, proto, _, address in found
        ]

    def _lookup(self, host: str, port: int, family: int) -> asyncio.Future[list[Any]]:
        key = (host, port, family)
        if (lookup := self._lookups.get(key)) is None:
            ask = functools.partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM)
            lookup = self._lookups[key] = asyncio.get_running_loop().run_in_executor(self._threads, ask)
            lookup.add_done_callback(functools.partial(self._looked_up, key))
        return lookup

    def _looked_up(self, key: tuple[str, int, int], lookup: asyncio.Future[list[Any]]) -> None:
        del self._lookups[key]
        if not lookup.cancelled():
            lookup.exception()  # nobody may be waiting any more, and that is no fault

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class GuardedClient:
    """No proxies from the environment, no cookies, no redirects, a new connection each time; time is the caller's."""

    def __init__(self, hosts: ListedHosts, allowed: Allowed) -> None:
        self.hosts = hosts
        self._allowed = allowed
        self._resolver = GuardedResolver(allowed)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()

    async def look(self, url: str) -> None:
        """Check ``url`` ahead of its requests. A name that cannot be looked up now passes: each request checks again.

        Raises AddressRefused, NotPublic, NoSuchHost.
        """
        parsed = self._check(url)
        try:
            async with asyncio.timeout(RESOLVE_S):
                await self._resolver.resolve(parsed.raw_host or "", family=socket.AF_UNSPEC)
        except _Forbidden as exc:
            raise NotPublic(str(exc)) from None
        except socket.gaierror as exc:
            if exc.errno == socket.EAI_NONAME:
                raise NoSuchHost(f"there is no host {parsed.host}") from None
        except (TimeoutError, OSError, ValueError):
            pass

    @contextlib.asynccontextmanager
    async def request(self, method: str, url: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, whose body is read only as far as the caller does. ``options`` are aiohttp's.

        Raises AddressRefused, NotPublic, Unreachable; TimeoutError as it comes.
        """
        parsed = self._check(url)
        if self._session is None:
            connector = aiohttp.TCPConnector(resolver=self._resolver, use_dns_cache=False, force_close=True, limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        try:
            async with self._session.request(method, parsed, allow_redirects=False, **options) as response:
                yield response
        except TimeoutError:
            raise
        except aiohttp.ClientSSLError as exc:  # a certificate that is not trusted, for one
            raise Unreachable(f"TLS with the URL's host failed ({exc.os_error.strerror})") from None
        except aiohttp.ClientConnectorError as exc:
            if isinstance(exc.os_error, _Forbidden):
                raise NotPublic(str(exc.os_error)) from None
            raise Unreachable("the URL's host cannot be reached") from None
        except (aiohttp.ClientError, ValueError, OSError) as exc:
            raise Unreachable(f"the URL cannot be fetched ({type(exc).__name__})") from None

    def _check(self, url: str) -> URL:
        parsed = self.hosts.check(url)
        host = (parsed.host or "").rstrip(".")
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return parsed
        if not self._allowed(str(address)):  # aiohttp connects to a plain address without asking the resolver
            raise NotPublic(f"{host} is not a public address")
        return parsed
