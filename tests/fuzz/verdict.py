# SPDX-License-Identifier: Apache-2.0
"""What is wrong with one input: an exception that the target does not allow, or more processor time or memory than any
input may cost."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from tests.support.paths import ROOT

CPU_SECONDS = 5.0  # of this process, not of the clock: a busy machine is no finding
MEMORY_BYTES = 3 << 29  # that an input may take beyond what the process has when the first one comes

Target = Callable[[bytes], None]


class TooSlow(BaseException):
    """The input took too much processor time. No ``except Exception`` of the code under test swallows it."""


class Broken(AssertionError):
    """A property that must hold for every input does not."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """``signature`` is the same for inputs that fail at the same place in the same way."""

    signature: str
    report: str


def judge(target: Target, data: bytes, cpu_seconds: float = CPU_SECONDS) -> Finding | None:
    """Run ``target`` on ``data``; None where nothing is wrong. Targets catch what they allow."""
    try:
        with limited(cpu_seconds):
            target(data)
    except (Exception, TooSlow) as error:
        return Finding(signature(error), "".join(traceback.format_exception(error)[-40:]))
    return None


@contextlib.contextmanager
def limited(cpu_seconds: float) -> Iterator[None]:
    """Raise TooSlow in the body once it has used the time. Code in C that never looks at signals is not stopped; the
    fuzzer's own limit on the clock ends the process then."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {cpu_seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    # Again and again: an exception that is raised inside a callback of C code may get lost.
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def limit_memory(more: int = MEMORY_BYTES) -> None:
    """Let this process have ``more`` bytes of address space than now; beyond, Python raises MemoryError."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, resource.RLIM_INFINITY))


def signature(error: BaseException) -> str:
    """The kind of the error and the last place of our own code, or of the targets', on its way."""
    if isinstance(error, RecursionError):
        # Where the limit is met depends on how deep the caller stood.
        return "RecursionError"
    ours = str(ROOT)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(ours) and "/.venvs/" not in frame.filename]
    inside = [frame for frame in own if frame.filename != __file__]
    last = (inside or own or frames)[-1:]
    place = f"{last[0].filename.removeprefix(ours + '/')}:{last[0].name}" if last else "nowhere"
    # Of two properties of one target, each is a finding of its own.
    what = f" {error}" if isinstance(error, Broken) else ""
    return f"{type(error).__name__} in {place}{what}"[:200]


def smaller(target: Target, data: bytes, wanted: str, tries: int = 300) -> bytes:
    """A short input with the same finding: pieces are left out while the signature stays (delta debugging)."""
    if wanted.startswith(TooSlow.__name__):
        tries //= 20  # each takes all the time that an input may take
    size = max(1, len(data) // 2)
    while tries and size:
        at, shrunk = 0, False
        while at < len(data) and tries:
            tries -= 1
            candidate = data[:at] + data[at + size :]
            found = judge(target, candidate)
            if found is not None and found.signature == wanted:
                data, shrunk = candidate, True
            else:
                at += size
        size = size // 2 if not shrunk or size > len(data) else size
    return data


if sys.getrecursionlimit() != 1000:
    raise ImportError("the limit of recursion is not Python's own, which the service runs with")
