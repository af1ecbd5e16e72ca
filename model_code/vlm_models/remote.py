# SPDX-License-Identifier: Apache-2.0
"""Images and videos that a request names by address: fetched from allowed hosts, and put into the request.

Whoever may ask could else make this server fetch from hosts that only it reaches. So an address is fetched where
VLM_MEDIA_HOSTS names its host, without redirects; another is left as it is, and refused as every address is.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx

from .fields import Refusal
from .parts import MEDIA, parts, url_of

MAX_BYTES = 64_000_000
TIMEOUT_S = 30.0
TYPES = {"image_url": "image/png", "video_url": "video/mp4"}  # what follows is told by its first bytes, not by this


async def fetch_media(document: dict[str, Any], hosts: frozenset[str], count: Callable[[int], None]) -> bool:
    """Replace allowed addresses in a checked request by data URLs; ``count`` hears of every byte that comes, and may
    raise Refusal. Returns whether there was one."""
    found = False
    for where, part in parts(document):
        for key in MEDIA:
            url = url_of(part, key)
            if isinstance(url, str) and is_allowed(url, hosts):
                data = await fetch(url, f"{where}.{key}", count)
                part[key] = {"url": f"data:{TYPES[key]};base64,{base64.b64encode(data).decode()}"}
                found = True
    return found


def is_allowed(url: str, hosts: frozenset[str]) -> bool:
    """Whether an address is of http or https, without a user's name, and its host, with the port where it has one, is
    among ``hosts``."""
    try:
        address = urlsplit(url)
    except ValueError:
        return False
    return address.scheme in ("http", "https") and address.netloc.lower() in hosts


async def fetch(url: str, where: str, count: Callable[[int], None]) -> bytes:
    """What lies at an address. Raises Refusal for what is too large or too slow, or is not there."""
    data = bytearray()
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code != 200:
                raise Refusal(400, f"{where}: its host answered {response.status_code}; expected 200")
            async for piece in response.aiter_bytes():
                count(len(piece))
                data += piece
                if len(data) > MAX_BYTES:
                    raise Refusal(413, f"{where}: it is larger than {MAX_BYTES} bytes; send a smaller one")
    except TimeoutError:
        raise Refusal(400, f"{where}: it did not arrive within {TIMEOUT_S:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Refusal(400, f"{where}: it could not be fetched: {type(error).__name__}") from error
    return bytes(data)
