# SPDX-License-Identifier: Apache-2.0
"""Calls of the VLM that were not answered: the retry policy, and what is to blame, the block or the way to the server.

How often a call is tried, and how long the client waits between tries: decision 0205.
"""

from __future__ import annotations

import dataclasses

import aiohttp

TRIES = 4  # of a call that the server fails on
TIMED_OUT_TRIES = 2
LOST_TRIES = 6  # of a call whose connection breaks, or whose server a balancer has lost
FIRST_PAUSE_S = 0.3
LONGEST_PAUSE_S = 2.0  # while nobody is there, so that the server's return is noticed soon
# A balancer needs some seconds to notice that a replica has failed, and sends calls to it until then.
LONGEST_FAULT_PAUSE_S = 10.0
TINY_S = 20.0  # longest wait for the tiny image; a busy server takes its time
MISCONFIGURED = (401, 403, 404)  # a key or a model name is wrong, so every other block would fail too
NOBODY_THERE = (429, 503)  # no server has begun the call: none is there, or none has room
LOST = 502  # a balancer's server hung up, or is gone and the balancer has not noticed yet
GATEWAY_TIMEOUT = 504
HUNG_UP = "the VLM server hung up on it"


@dataclasses.dataclass(frozen=True)
class BlockNote:
    """What went wrong with one block.

    ``kind`` is ``refused`` (the VLM called the request bad), ``failed`` (the VLM failed on it) or ``timeout``, all
    without text, or ``repetition`` or ``length``, where the text was cut.
    """

    kind: str
    message: str

    @property
    def has_text(self) -> bool:
        return self.kind in ("repetition", "length")


class BlockRefused(Exception):
    """The server called the request bad; the message is its own."""


class CallFailed(Exception):
    """The call can be tried again.

    ``words`` say what happened. ``tries``: so often a block is tried that the server fails on while it answers others;
    None where no server has seen the block, so that it cannot be to blame. ``kind`` is that of the block's note.
    """

    def __init__(
        self,
        words: str,
        tries: int | None,
        *,
        kind: str = "failed",
        pause_s: float | None = None,
    ) -> None:
        super().__init__(words)
        self.words, self.tries, self.pause_s = words, tries, pause_s
        self.longest_pause_s = LONGEST_PAUSE_S if tries is None else LONGEST_FAULT_PAUSE_S
        self.note = BlockNote(kind, words)


def of_status(status: int, words: str, retry_after: str) -> CallFailed:
    """The failure for an answer other than 200 that is neither the block's nor the configuration's fault."""
    words = f"{status}: {words}"
    pause_s = min(float(retry_after), LONGEST_PAUSE_S) if retry_after.isdecimal() else None
    if status in NOBODY_THERE:
        return CallFailed(words, None, pause_s=pause_s)
    if status == LOST:
        return CallFailed(words, LOST_TRIES, pause_s=pause_s)
    if status == GATEWAY_TIMEOUT:
        return CallFailed(words, TIMED_OUT_TRIES, kind="timeout", pause_s=pause_s)
    return CallFailed(words, TRIES, pause_s=pause_s)


def of_exception(exc: Exception) -> CallFailed:
    """The failure for what aiohttp or a time limit raised."""
    words = "it ended its answer early" if isinstance(exc, aiohttp.ClientPayloadError) else str(exc)
    words = words or type(exc).__name__
    if isinstance(exc, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return CallFailed(words, None)
    if isinstance(exc, TimeoutError):
        return CallFailed("the VLM server did not answer in time", TIMED_OUT_TRIES, kind="timeout")
    return CallFailed(f"{HUNG_UP} ({words})", LOST_TRIES)


def not_a_completion(exc: Exception) -> CallFailed:
    return CallFailed(f"the VLM server's answer is not a completion: {exc}", TRIES)
