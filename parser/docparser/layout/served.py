# SPDX-License-Identifier: Apache-2.0
"""The client of the layout server (LAYOUT_URL). It says when there is no answer, and the caller's own engine goes on.

While the server is away, one page at a time retries it after growing pauses. Other pages go straight to the CPU. A
server that could not be reached is also asked for its health, so that its return is known before the next page.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from layout_wire import CONTENT_TYPE, MODEL_HEADER, PATH, BadMessage, pack, unpack
from paddle_program.program import model_checksum

log = logging.getLogger(__name__)

NAMES = ("im_shape", "image", "scale_factor")  # as PaddleX orders them
SERVED, ON_CPU = "layout_served", "layout_on_cpu"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
CONNECT_TIMEOUT_S = 1.0
BUSY = 503
MOST_ANSWER_BYTES = 64 << 20


class NoAnswer(Exception):
    """The server is there, but did not find this page's layout; the text says why."""


class LayoutServer:
    """May be used by several threads. ``counts`` are pages by SERVED and ON_CPU; ``away`` is why the server is not used
    now, or empty."""

    def __init__(self, url: str, model_dir: Path, timeout_s: float) -> None:
        """``model_dir`` has the model that the server must have too. Raises OSError."""
        self.url = url
        self._address = urlsplit(url)
        self._timeout_s = timeout_s
        self._headers = {MODEL_HEADER: model_checksum(model_dir), "Content-Type": CONTENT_TYPE}
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._pause_s, self._next_try = FIRST_PAUSE_S, 0.0
        self._gone = False
        self.away = ""
        self.counts: Counter[str] = Counter({SERVED: 0, ON_CPU: 0})

    def find(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """The model's results for the inputs of a page, or None: then the caller finds them."""
        if not self._may_try():
            return self._count(ON_CPU, None)
        try:
            results = self._ask(inputs)
        except NoAnswer as exc:
            log.info("a page's layout is found on the CPU: %s", exc)
            self._win()
            return self._count(ON_CPU, None)
        except (OSError, http.client.HTTPException, BadMessage) as exc:
            self._lose(exc)
            return self._count(ON_CPU, None)
        self._win()
        return self._count(SERVED, results)

    def look_again(self) -> None:
        """Ask a server that could not be reached whether it is back. One that was slow, or whose answers are unusable,
        may well be healthy: only a page tells."""
        if not (self.away and self._gone and self._may_try()):
            return
        connection = self._connection()
        try:
            connection.request("GET", self._path("/health"))
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK or json.load(response)["model"] != self._headers[MODEL_HEADER]:
                raise BadMessage(f"its health is HTTP {response.status}, or it has another model")
        except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError) as exc:
            self._lose(exc)
        else:
            self._win()
        finally:
            connection.close()

    def _may_try(self) -> bool:
        with self._lock:
            if not self.away:
                return True
            if time.monotonic() < self._next_try:
                return False
            # One page asks; the others go to the CPU meanwhile.
            self._next_try = time.monotonic() + self._timeout_s + CONNECT_TIMEOUT_S
            return True

    def _lose(self, exc: Exception) -> None:
        reason = f"{self.url}: {str(exc) or type(exc).__name__}"
        with self._lock:
            self._gone = isinstance(exc, OSError) and not isinstance(exc, TimeoutError)
            if not self.away:
                log.warning("the layout server is away, the CPU goes on: %s", reason)
            self.away = reason
            self._next_try = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _win(self) -> None:
        with self._lock:
            if self.away:
                log.info("the layout server is back")
            self.away, self._pause_s = "", FIRST_PAUSE_S

    def _count(self, how: str, results: list[np.ndarray] | None) -> list[np.ndarray] | None:
        with self._lock:
            self.counts[how] += 1
        return results

    def _ask(self, page: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Raises NoAnswer where it has no room, OSError, HTTPException, BadMessage."""
        arrays = dict(zip(NAMES, page, strict=True))
        sizes = {name: arrays[name].astype(np.float32, copy=False) for name in NAMES if name != "image"}
        status, answer = self._post(pack(arrays | sizes))
        if status == BUSY:
            raise NoAnswer("the layout server has no room")
        if status != http.HTTPStatus.OK:
            raise BadMessage(f"HTTP {status}: {_words(answer)}")
        results = [part.copy() for part in unpack(answer, masks=True).values()]  # PaddleX rounds boxes in place
        if len(results) < 2 or results[1].shape != (1,) or any(len(rows) != results[1][0] for rows in results[::2]):
            raise BadMessage("its answer is not that of a layout model")
        return results

    def _post(self, body: bytes) -> tuple[int, bytes]:
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._exchange(kept, body)
            except (ConnectionError, http.client.BadStatusLine):
                kept.close()  # the server may have closed it meanwhile; a new connection tells
        return self._exchange(self._connect(), body)

    def _connection(self) -> http.client.HTTPConnection:
        assert self._address.hostname is not None, "the settings check it"
        return http.client.HTTPConnection(self._address.hostname, self._address.port or 80, timeout=CONNECT_TIMEOUT_S)

    def _path(self, path: str) -> str:
        return self._address.path.rstrip("/") + path

    def _connect(self) -> http.client.HTTPConnection:
        connection = self._connection()
        connection.connect()
        connection.sock.settimeout(self._timeout_s)
        return connection

    def _exchange(self, connection: http.client.HTTPConnection, body: bytes) -> tuple[int, bytes]:
        try:
            connection.request("POST", self._path(PATH), body, self._headers)
            response = connection.getresponse()
            answer = response.read(MOST_ANSWER_BYTES)
            if not response.isclosed():
                raise BadMessage(f"its answer has more than {MOST_ANSWER_BYTES} bytes")
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return response.status, answer


def _words(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["error"])[:300]
    except (ValueError, TypeError, KeyError):
        return "no reason given"
