# SPDX-License-Identifier: Apache-2.0
"""Where callbacks may go: the operator's hosts and networks, checked at submission and again for each attempt."""

from __future__ import annotations

from docparser.errors import InvalidJob
from docparser.outbound.addresses import public_or_in
from docparser.outbound.client import GuardedClient, NotPublic
from docparser.outbound.hosts import ListedHosts, Refused
from docparser.settings import Settings
from docparser.settings.base import listed

MOST_CHARACTERS = 2048


def client_of(settings: Settings) -> GuardedClient:
    hosts = ListedHosts(settings.callback_hosts, "PARSER_CALLBACK_HOSTS")
    return GuardedClient(hosts, public_or_in(listed(settings.callback_networks)))


async def check(client: GuardedClient, url: str) -> None:
    """Raises InvalidJob for a ``callbackUrl`` that would be refused when it is sent to."""
    if not client.hosts:
        raise InvalidJob("callbackUrl: this service sends no callbacks (PARSER_CALLBACK_HOSTS is empty); leave it out")
    try:
        await client.look(url)
    except Refused as exc:
        raise InvalidJob(f"callbackUrl: {words(exc)}") from None


def words(exc: Refused) -> str:
    """What the client is told, at submission and in the job's state."""
    if isinstance(exc, NotPublic):
        return f"{exc}; callbacks go to public ones, and to those that the operator lists in PARSER_CALLBACK_NETWORKS"
    return str(exc)
