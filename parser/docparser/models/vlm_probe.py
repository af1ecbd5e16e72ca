# SPDX-License-Identifier: Apache-2.0
"""Asks the VLM server whether it answers, with which weights, and how many of its replicas are there."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from docparser.errors import VlmUnavailable
from docparser.settings import Settings
from docparser.settings.models import VLM_CONNECT_TIMEOUT_S
from docparser.vlm.failures import TINY_S
from docparser.vlm.reply import NotACompletion, error_text, from_json
from docparser.weights import Weights
from selftest.tiny_image import tiny_request, tiny_request_id
from served_weights.manifest import is_demo

REPLICAS_REMEMBERED_S = 5.0
TIMEOUT_S = 10.0  # the container asks every replica first, and one that hangs takes its time
# The samples stand at the begin of the page (operations/container/metrics.py).
MOST_BYTES = 64 << 10
UP = re.compile(r'^vlm_replica_up\{replica="\d+"\} ([0-9.e+]+)$', re.MULTILINE)
OOM_KILLS = re.compile(r"^vlm_oom_kills_total ([0-9.e+]+)$", re.MULTILINE)
MISSING = re.compile(r"^vlm_dies_missing ([0-9.e+]+)$", re.MULTILINE)
REMEMBERED_S = 2.0  # an outcome is used for all checks within this time
PROOF_S = 30.0  # a block that the VLM has read proves for this time that it reads


@dataclass(frozen=True)
class Replicas:
    """``missing`` counts dies that are named by NPU_IDS and were not there at the start; they are not in
    ``configured``. ``oom_kills`` counts processes of the VLM that ended because its memory limit was reached, since its
    container started."""

    up: int
    configured: int
    missing: int
    oom_kills: int = 0

    def as_dict(self) -> dict[str, int]:
        return {"up": self.up, "configured": self.configured, "diesMissing": self.missing}


def from_page(page: str) -> Replicas | None:
    """From the VLM container's page of metrics; None for a server without such samples (local mode, another server)."""
    found = [float(value) for value in UP.findall(page)]
    missing, oom_kills = (int(float(seen[1])) if (seen := one.search(page)) else 0 for one in (MISSING, OOM_KILLS))
    return Replicas(int(sum(found)), len(found), missing, oom_kills) if found else None


class ReplicaCount:
    """Asks the VLM's address for its metrics, at most every REPLICAS_REMEMBERED_S. Belongs to one event loop.

    It is a collector of Prometheus' library, which shows what the last ``get`` found."""

    def __init__(self, settings: Settings) -> None:
        self._url = urlsplit(settings.vlm_url)._replace(path="/metrics", query="").geturl()
        self._asked = float("-inf")
        self.found: Replicas | None = None
        # The last number of replicas that was seen: when the whole container is away, none of these are up.
        self._configured: Replicas | None = None

    async def get(self) -> Replicas | None:
        """None where the VLM never said how many replicas it has."""
        if time.monotonic() - self._asked > REPLICAS_REMEMBERED_S:
            self.found = await self._ask()
            self._asked = time.monotonic()
        return self.found

    def collect(self) -> Iterator[Metric]:
        if (found := self.found) is None:
            return
        for name, words, value in (
            ("docparser_vlm_replicas_up", "Replicas of the VLM that answer.", found.up),
            ("docparser_vlm_replicas_configured", "Replicas of the VLM that its container runs.", found.configured),
            ("docparser_vlm_dies_missing", "Dies of NPU_IDS that were not there.", found.missing),
        ):
            yield GaugeMetricFamily(name, words, value)
        yield CounterMetricFamily(
            "docparser_vlm_oom_kills",
            "Processes of the VLM that ended because its memory limit was reached.",
            found.oom_kills,
        )

    async def _ask(self) -> Replicas | None:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.get(self._url, allow_redirects=False) as response,
            ):
                page = (await begin_of(response.content)) if response.status == 200 else b""
        except (aiohttp.ClientError, OSError):
            page = b""
        found = from_page(page.decode("utf-8", "replace"))
        if found is not None:
            self._configured = found
            return found
        known = self._configured
        return dataclasses.replace(known, up=0) if known else None


async def begin_of(page: aiohttp.StreamReader) -> bytes:
    """Its first MOST_BYTES, or all of a shorter one: ``read`` returns what has come so far, a part of the samples."""
    try:
        return await page.readexactly(MOST_BYTES)
    except asyncio.IncompleteReadError as exc:
        return exc.partial


class VlmProbe:
    """Belongs to one event loop. ``last_answer`` and ``last_loss`` return when the VLM last answered a worker, and when
    a worker's call last failed (``time.monotonic()``).

    While the VLM answers workers, the probe sends it no image of its own. A failed call voids every earlier proof.
    ``when_other`` gets the names that the VLM lists where the model that is asked for is none of them.
    """

    def __init__(self, settings: Settings, last_answer: Callable[[], float], last_loss: Callable[[], float]) -> None:
        self._model = settings.vlm_model_name
        self._url = settings.vlm_url
        self._headers = {"Authorization": f"Bearer {settings.vlm_api_key}"} if settings.vlm_api_key else {}
        self._last_answer, self._last_loss = last_answer, last_loss
        self._last_tiny = float("-inf")
        self._session: aiohttp.ClientSession | None = None
        self._lock = asyncio.Lock()
        self._checked = float("-inf")
        self._outcome: Weights | VlmUnavailable = VlmUnavailable("The VLM server was not asked yet.")
        self._weights: Weights | None = None
        self.when_other: Callable[[Collection[str]], None] = lambda served: None
        self.away_since: float | None = None  # the first check of those that failed since one succeeded

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def weights(self) -> Weights | None:
        """Those that the VLM had when it last said so, however long it has been away since; None before it ever did."""
        return self._weights

    async def check(self) -> Weights:
        """The weights that the server has loaded. Raises VlmUnavailable."""
        async with self._lock:
            began = time.monotonic()
            if began - self._checked > REMEMBERED_S or self._last_loss() >= self._checked:
                try:
                    self._outcome = self._weights = await self._ask()
                    self.away_since = None
                except VlmUnavailable as exc:
                    self._outcome, self.away_since = exc, self.away_since or began
                self._checked = began
        if isinstance(self._outcome, VlmUnavailable):
            raise VlmUnavailable(*self._outcome.args)
        return self._outcome

    async def _ask(self) -> Weights:
        """vLLM's /health fails when its engine is dead; /v1/models names what it serves, and from where."""
        try:
            status, _ = await self._request("GET", urlsplit(self._url)._replace(path="/health", query="").geturl())
            if status >= 500:
                raise VlmUnavailable(f"The VLM server at {self._url} is not healthy (/health answers {status}).")
            status, body = await self._request("GET", f"{self._url}/models")
            if status != 200:
                raise VlmUnavailable(f"The VLM server at {self._url} answers {status} to /models: {error_text(body)}")
            served = {model["id"]: model for model in json.loads(body)["data"]}
        except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError) as exc:
            raise VlmUnavailable(
                f"The VLM server at {self._url} cannot be reached ({str(exc) or type(exc).__name__})."
            ) from exc
        if self._model not in served:
            self.when_other(served)
            raise VlmUnavailable(
                f"The VLM server at {self._url} serves {', '.join(served) or 'nothing'}, not {self._model}; set "
                "VLM_MODEL to the model that is served, or VLM_MODEL_NAME if its server uses another name."
            )
        proof = max(self._last_answer(), self._last_tiny)
        if time.monotonic() - proof > PROOF_S or proof <= self._last_loss():
            await self._read_tiny()
        path = served[self._model].get("root")
        return Weights(self._model, path, is_demo(path) if path else None)

    async def _read_tiny(self) -> None:
        """One token for one tiny image: a server may be healthy and list its model, and still read nothing."""
        body = tiny_request(self._model)
        began = time.monotonic()
        try:
            status, answer = await self._request("POST", f"{self._url}/chat/completions", body, read_s=TINY_S)
            if status != 200:
                raise VlmUnavailable(
                    f"The VLM server at {self._url} refuses a tiny image ({status}: {error_text(answer)})."
                )
            from_json(answer)
        except (aiohttp.ClientError, OSError) as exc:
            raise VlmUnavailable(
                f"The VLM server at {self._url} does not read a tiny image ({str(exc) or type(exc).__name__})."
            ) from exc
        except NotACompletion as exc:
            raise VlmUnavailable(
                f"The VLM server at {self._url} answers a tiny image with no completion: {exc}"
            ) from exc
        self._last_tiny = began

    async def _request(
        self, method: str, url: str, body: dict | None = None, read_s: float = VLM_CONNECT_TIMEOUT_S
    ) -> tuple[int, bytes]:
        """Status and body of one request on a connection of its own.

        Raises aiohttp.ClientError; OSError, of which TimeoutError is one.
        """
        if self._session is None:  # here, because a session belongs to the running event loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True), headers=self._headers, trust_env=False
            )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=VLM_CONNECT_TIMEOUT_S, sock_read=read_s)
        headers = {"X-Request-Id": tiny_request_id()}
        async with self._session.request(
            method, url, json=body, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            return response.status, await response.read()
