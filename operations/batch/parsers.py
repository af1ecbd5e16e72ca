# SPDX-License-Identifier: Apache-2.0
"""The parsers that get pages, and the meaning of their answers for page and parser."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

from bundle import parser_client
from tool_errors import ParseError, ServiceError, UsageError

from .pages import Page

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
# Statuses of a parser that cannot take a page now. The page is not to blame.
UNAVAILABLE = frozenset({429, 502, 503})


class Unavailable(Exception):
    """The parser cannot be reached, is full, or its VLM is away. The page is sent again later, to any parser.

    `refused`: the parser answered, and was not just full. `pause`: the seconds that it asks us to wait.
    """

    def __init__(self, message: str, *, refused: bool = False, pause: float | None = None) -> None:
        super().__init__(message)
        self.refused = refused
        self.pause = pause


class AttemptFailed(Exception):
    """The parser failed on this page, or went away while it had the page. A few more tries are worthwhile."""


class Parser:
    """One parser. `url` is its root, e.g. http://127.0.0.1:8080; `timeout` in seconds for one page."""

    def __init__(self, url: str, timeout: float) -> None:
        if not is_http(url):
            raise UsageError(f"--server {url}: expected a URL like http://127.0.0.1:8080")
        self.url = url.rstrip("/").removesuffix("/layout-parsing")
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=10),
            headers=parser_client.headers(),
            limits=httpx.Limits(max_connections=None),
            trust_env=False,  # a proxy named by the environment must not get between a site's services
        )
        self.last_answer = time.monotonic()

    async def close(self) -> None:
        await self._client.aclose()

    async def trouble(self) -> str | None:
        """Return why the parser cannot work now, or None if it can."""
        try:
            response = await self._client.get(f"{self.url}/health/ready", timeout=10)
        except httpx.HTTPError as error:
            return f"{self.url}: cannot be reached ({str(error) or type(error).__name__})"
        # PaddleX's own server has no /health/ready and answers 404; the first page shows whether it works.
        if response.status_code in (200, 404):
            return None
        return f"{self.url}: {refusal(response)}"

    async def parse(self, page: Page, options: dict[str, Any]) -> dict[str, Any]:
        """Send one page and return the `result` of the answer.

        Raises ParseError for a page that is refused, Unavailable, AttemptFailed, and UsageError if no page can succeed
        (the key is missing, the parser does not answer under this host name, or it is no parser).
        """
        body = parser_client.body(page.data, page.file_type, **options)
        try:
            response = await self._client.post(f"{self.url}/layout-parsing", json=body)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Unavailable(f"{self.url}: cannot be reached ({str(error) or type(error).__name__})") from error
        except httpx.TimeoutException as error:
            raise AttemptFailed(f"no answer within the time that --timeout allows ({type(error).__name__})") from error
        except httpx.HTTPError as error:
            raise AttemptFailed(f"the connection broke off ({str(error) or type(error).__name__})") from error
        status = response.status_code
        if status in UNAVAILABLE:
            raise Unavailable(f"{self.url}: {refusal(response)}", refused=status != 429, pause=retry_after(response))
        if status in (401, 403):
            raise UsageError(f"{self.url}: {refusal(response)}; put the key into PARSER_API_KEY")
        if status == 421:  # its answer says what to do; /health/ready answers under any host name
            raise UsageError(f"{self.url}: {refusal(response)}")
        if status in (404, 405):
            raise UsageError(f"{self.url}/layout-parsing: HTTP {status}; is this a parser?")
        if status >= 500 or status == 408:
            raise AttemptFailed(refusal(response))
        if status >= 400:
            raise ParseError(refusal(response))
        self.last_answer = time.monotonic()
        try:
            return response.json()["result"]
        except (ValueError, KeyError, TypeError) as error:
            raise AttemptFailed(f"the answer cannot be understood ({error})") from error

    async def wait(self, reason: Unavailable, patience: float) -> None:
        """Wait until the parser may be tried again.

        Raises ServiceError once it has parsed no page for `patience` seconds.
        """
        pause = FIRST_PAUSE_S
        await asyncio.sleep(reason.pause or pause)
        while (trouble := await self.trouble()) is not None:
            if time.monotonic() - self.last_answer > patience:
                raise ServiceError(f"given up after {patience:.0f} s (--patience): {trouble}")
            pause = min(2 * pause, LONGEST_PAUSE_S)
            await asyncio.sleep(pause)
        if time.monotonic() - self.last_answer > patience:
            raise ServiceError(f"given up after {patience:.0f} s (--patience): {reason}")


def is_http(url: str) -> bool:
    """Whether requests can be sent to this URL."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return parts.scheme in ("http", "https") and bool(parts.host) and (parts.port or 0) < 1 << 16


def refusal(response: httpx.Response) -> str:
    """Return the parser's own message, or the status and the beginning of the body."""
    return parser_client.refusal(response.status_code, response.text)


def retry_after(response: httpx.Response) -> float | None:
    """Return the seconds that the parser asks us to wait, at most LONGEST_PAUSE_S; None if it gives no number."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), LONGEST_PAUSE_S) if text.isdigit() else None
