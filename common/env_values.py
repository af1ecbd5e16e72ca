# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a variable of the environment or of .env, and who can reach an address. Standard library only."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from tool_errors import UsageError

# What Kubernetes and Docker set for a service of the same namespace: NAME_SERVICE_HOST, NAME_PORT=tcp://..., and so on.
SERVICE_LINK = re.compile(r"\w+_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
LINK_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


class WrongValue(UsageError):
    """A variable's value cannot be used: ``name``, the ``value`` as it was given, and what was ``expected``."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        super().__init__(f"{name} is {value!r}; expected {expected}")
        self.name, self.value, self.expected = name, value, expected


def is_loopback(address: str) -> bool:
    """Whether only this machine can connect to ``address``. An IPv6 address may have brackets."""
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address == "localhost"


def open_to(address: str, public_url: str = "", origins: Collection[str] = ()) -> str:
    """Who else than this machine's users may use a service without keys that listens on ``address``; empty: nobody. For
    ``public_url`` a proxy asks it on loopback. Where ``origins`` has ``*``, these users' browsers ask it for any page.
    """
    if not is_loopback(address):
        return f"everyone who can reach {address}"
    try:
        name = urlsplit(public_url).hostname or "PUBLIC_URL"
    except ValueError:
        name = "PUBLIC_URL"
    if public_url and not is_loopback(name):
        return f"everyone who can reach {name}"
    return "every web page, because PARSER_ALLOWED_ORIGINS has *" if "*" in origins else ""


def is_link(name: str, value: str) -> bool:
    """Whether this is the address that a cluster sets for a service, like VLM_PORT=tcp://10.0.0.7:8000."""
    return name.endswith("_PORT") and LINK_ADDRESS.match(value) is not None


def unknown(
    env: Mapping[str, str], prefixes: tuple[str, ...], names: Collection[str], internal: Collection[str] = ()
) -> list[str]:
    """A line for each variable with one of ``prefixes`` that is neither in ``names`` nor in ``internal``.

    It ends with the nearest of ``names``, if one is near. A cluster's variables for its services are no settings. Empty
    counts as unset: a newer compose.yaml passes its new settings, empty, to an older image.
    """
    lines = []
    for name in sorted(env):
        if not env[name] or not name.startswith(prefixes) or name in names or name in internal:
            continue
        if SERVICE_LINK.fullmatch(name) or is_link(name, env[name]):
            continue
        near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else "docs/settings.md has all settings"
        lines.append(f"{name}: unknown; {hint}")
    return lines
