# SPDX-License-Identifier: Apache-2.0
"""Which hosts and IP addresses may be asked: hosts that an operator lists in a setting, and public addresses."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable, Iterable

from yarl import URL

Allowed = Callable[[str], bool]
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
            raise AddressRefused(f"port {port} of {host} is not asked; the operator lists hosts in {self._setting}")
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
