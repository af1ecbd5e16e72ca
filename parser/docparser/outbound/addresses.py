# SPDX-License-Identifier: Apache-2.0
"""Which IP addresses may be connected to."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable

Allowed = Callable[[str], bool]


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
