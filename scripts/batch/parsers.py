# SPDX-License-Identifier: Apache-2.0
"""Parsers that pages are sent to: what an answer means for the page, and for the parser."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import time
from typing import Any

import httpx

from bundle.errors import ParseError, ServiceError, UsageError

from .pages import Page

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
# The parser is there, but not for this page now; none of these is the page's fault.
AWAY = frozenset({429, 502, 503})


class Away(Exception):
    """The parser cannot be reached, is full, or its VLM is away: the page is sent again later, to any parser.

    `refused`: it answered, and was not just full. `pause`: seconds that it asks for.
    """

    def __init__(self, message: str, *, refused: bool = False, pause: float | None = None) -> None:
        super().__init__(message)
        self.refused = refused
        self.pause = pause


class Broke(Exception):
    """The parser failed on this very page, or went away over it: worth another try, but not for ever."""


class Parser:
    """One parser. `url` is its root, e.g. http://127.0.0.1:8080; `timeout` in seconds for one page."""

    def __init__(self, url: str, timeout: float) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--server {url}: expected a URL like http://127.0.0.1:8080")
        self.url = url.rstrip("/").removesuffix("/layout-parsing")
        key = os.environ.get("PARSER_API_KEY")
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=10),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=httpx.Limits(max_connections=None),
            trust_env=False,  # a proxy named by the environment must not get between a site's services
        )
        self.last_answer = time.monotonic()

    async def close(self) -> None:
        await self._client.aclose()

    async def trouble(self) -> str | None:
        """Why the parser cannot work now, or None if it can."""
        try:
            response = await self._client.get(f"{self.url}/health/ready", timeout=10)
        except httpx.HTTPError as error:
            return f"{self.url}: cannot be reached ({error or type(error).__name__})"
        # PaddleX's own server has no /health/ready; any page will tell.
        if response.status_code in (200, 404):
            return None
        return f"{self.url}: {words(response)}"

    async def parse(self, page: Page, options: dict[str, Any]) -> dict[str, Any]:
        """The `result` for one page. Raises ParseError for a page that is refused, Away, Broke, or UsageError when no
        page can succeed (a key is missing, this is no parser)."""
        body = {"file": base64.b64encode(page.data).decode("ascii"), "fileType": page.file_type, **options}
        try:
            response = await self._client.post(f"{self.url}/layout-parsing", json=body)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Away(f"{self.url}: cannot be reached ({error or type(error).__name__})") from error
        except httpx.TimeoutException as error:
            raise Broke(f"no answer within the time that --timeout allows ({type(error).__name__})") from error
        except httpx.HTTPError as error:
            raise Broke(f"the connection broke off ({error or type(error).__name__})") from error
        status = response.status_code
        if status in AWAY:
            raise Away(f"{self.url}: {words(response)}", refused=status != 429, pause=retry_after(response))
        if status in (401, 403):
            raise UsageError(f"{self.url}: {words(response)}; put the key into PARSER_API_KEY")
        if status in (404, 405):
            raise UsageError(f"{self.url}/layout-parsing: HTTP {status}; is this a parser?")
        if status >= 500 or status == 408:
            raise Broke(words(response))
        if status >= 400:
            raise ParseError(words(response))
        self.last_answer = time.monotonic()
        try:
            return response.json()["result"]
        except (ValueError, KeyError, TypeError) as error:
            raise Broke(f"the answer cannot be understood ({error})") from error

    async def wait(self, reason: Away, patience: float) -> None:
        """Until the parser may be tried again. Raises ServiceError once it has not parsed a page for `patience` seconds."""
        pause = FIRST_PAUSE_S
        await asyncio.sleep(reason.pause or pause)
        while (trouble := await self.trouble()) is not None:
            if time.monotonic() - self.last_answer > patience:
                raise ServiceError(f"given up after {patience:.0f} s (--patience): {trouble}")
            pause = min(2 * pause, LONGEST_PAUSE_S)
            await asyncio.sleep(pause)
        if time.monotonic() - self.last_answer > patience:
            raise ServiceError(f"given up after {patience:.0f} s (--patience): {reason}")


def words(response: httpx.Response) -> str:
    """What the parser says in its own words, else the status and the beginning of the body."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        answer = response.json()
        return f"{answer['errorMsg']} ({answer['errorCode']})"
    return f"HTTP {response.status_code} {response.text[:200].strip()}"


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that the parser asks us to wait, if it says so as a number; at most LONGEST_PAUSE_S."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), LONGEST_PAUSE_S) if text.isdigit() else None
