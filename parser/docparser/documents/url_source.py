# SPDX-License-Identifier: Apache-2.0
"""Fetches documents by URL, only from hosts that the operator lists, and never from inside the network.

``outbound`` checks each address, also after a redirect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urljoin

import aiohttp

from docparser.errors import DocumentTooLarge, InvalidDocument, InvalidRequest
from docparser.outbound import AddressRefused, Allowed, GuardedClient, ListedHosts, NotPublic, Unreachable, is_public
from docparser.settings import Settings

REDIRECTS = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 5
Write = Callable[[bytes], Awaitable[object]]


class UrlSource:
    """``allowed`` says whether an address may be connected to; tests replace it, because they have only loopback."""

    def __init__(self, settings: Settings, allowed: Allowed = is_public) -> None:
        self._client = GuardedClient(ListedHosts(settings.url_hosts, "PARSER_URL_HOSTS"), allowed)
        self._max_bytes = settings.max_body_mib << 20
        self._max_mib = settings.max_body_mib
        self._timeout_s = settings.url_timeout_s

    async def close(self) -> None:
        await self._client.close()

    async def fetch(self, url: str, write: Write) -> None:
        """The document's bytes go to ``write``, piece by piece.

        Raises InvalidRequest, InvalidDocument, DocumentTooLarge, and what ``write`` raises of ParserError.
        """
        if not self._client.hosts:
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
        except NotPublic as exc:
            raise InvalidRequest(f"file: {exc}; only public hosts are fetched from") from None
        except AddressRefused as exc:
            raise InvalidRequest(f"file: {exc}") from None
        except Unreachable as exc:
            raise InvalidDocument(f"file: {exc}") from None

    async def _follow(self, url: str, write: Write) -> None:
        for _ in range(MAX_REDIRECTS + 1):
            async with self._client.request("GET", url) as response:
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
