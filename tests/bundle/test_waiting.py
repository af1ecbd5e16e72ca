# SPDX-License-Identifier: Apache-2.0
"""What a call that waits makes of a service's log and of its answers: it ends where waiting is of no use, with the
cause."""

from __future__ import annotations

import io
import json
import signal

import pytest

from bundle import interrupts, readiness
from health_probe import Probe
from tool_errors import ServiceError

ENGINE = """\
(APIServer pid=11) INFO 11-25 02:00:00 [api_server.py:1977] vLLM API server version 0.11.1
(EngineCore_DP0 pid=22) INFO 11-25 02:00:01 [core.py:93] Initializing a V1 LLM engine
(EngineCore_DP0 pid=22) ERROR 11-25 02:00:02 [core.py:708] EngineCore failed to start.
(EngineCore_DP0 pid=22) ERROR 11-25 02:00:02 [core.py:708] Traceback (most recent call last):
(EngineCore_DP0 pid=22) ERROR 11-25 02:00:02 [core.py:708]   File "a.py", line 1, in run
(EngineCore_DP0 pid=22) ERROR 11-25 02:00:02 [core.py:708] PermissionError: [Errno 13] Permission denied: '/dev/shm/x'
(EngineCore_DP0 pid=22) ERROR 11-25 02:00:02 [core.py:708] During handling of the above exception, another one occurred:
(EngineCore_DP0 pid=22) ERROR 11-25 02:00:02 [core.py:708] RuntimeError: cannot be set up
(EngineCore_DP0 pid=22) Process EngineCore_DP0:
(APIServer pid=11) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (ENGINE, "PermissionError: [Errno 13] Permission denied: '/dev/shm/x'"),
        ("(EngineCore_DP0 pid=2) OSError: [Errno 28] No space left\n" + ENGINE, "OSError: [Errno 28] No space left"),
        ("(Worker_TP0 pid=2) ValueError: no such die\nRuntimeError: see above", "ValueError: no such die"),
        (
            "\x1b[1;36m(EngineCore_DP0 pid=2)\x1b[0;0m OSError: [Errno 30] Read-only file system\n"
            "\x1b[1;36m(APIServer pid=1)\x1b[0;0m RuntimeError: See root cause above.",
            "OSError: [Errno 30] Read-only file system",
        ),
        (
            "docparser: no worker could be started: why\nBrokenPipeError: [Errno 32]",
            "docparser: no worker could be started: why",
        ),
        (
            '{"level": "error", "logger": "uvicorn.error", "message": "address already in use"}\n'
            '{"level": "info", "logger": "uvicorn.error", "message": "Application shutdown complete."}',
            "error: address already in use",
        ),
        ("one\nan Error in two\nthree", "an Error in two"),
        ("one\n\n two \n", "two"),
        ("", "no output"),
    ],
)
def test_the_cause_is_found_in_the_log(log: str, cause: str):
    assert readiness.likely_cause(log.splitlines()) == cause


def test_a_service_is_probed_until_it_answers(monkeypatch: pytest.MonkeyPatch):
    """With a look and a pause after each failure; a look may end it."""
    probes = iter([Probe(False, "one"), Probe(False, "two"), Probe(False, "three"), Probe(True, "there")] * 2)
    done: list[object] = []
    monkeypatch.setattr(readiness, "probe", lambda url: next(probes))
    monkeypatch.setattr(readiness.time, "sleep", done.append)
    found = readiness.wait("http://a", "a service", lambda _, result: done.append(result.detail), every=0.25)
    assert found == Probe(True, "there") and done == ["two", 0.25, "three", 0.25]

    def look(_: object, result: Probe) -> None:
        raise ServiceError(f"gave up at {result.detail}")

    with pytest.raises(ServiceError, match="gave up at two"):
        readiness.wait("http://a", "a service", look)


@pytest.mark.parametrize(("detail", "found"), [('{"result": {"model": "m"}}', {"model": "m"}), ("{}", {}), ("ok", {})])
def test_the_weights_in_use_are_told_by_the_parser(detail: str, found: dict[str, object]):
    assert readiness.weights_in_use(Probe(True, detail)) == found


def answer(state: str) -> Probe:
    return Probe(False, "HTTP 503: " + json.dumps({"errorMsg": "x" * 3000, "result": {"layout": {"state": state}}}))


def test_only_a_parser_that_says_so_is_broken():
    assert readiness.is_broken(answer("broken"))
    for result in (
        answer("starting"),
        answer("restarting"),
        Probe(False, "Connection refused"),
        Probe(False, "HTTP 502: [1]"),
    ):
        assert not readiness.is_broken(result)


class Answer(io.RawIOBase):
    """Is told to end while Python finalizes it, as the answer of a probe may be; Python drops what is raised there."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            signal.raise_signal(signal.SIGTERM)


def test_a_signal_whose_exception_is_lost_ends_the_wait(monkeypatch: pytest.MonkeyPatch):
    def away(_: str) -> Probe:
        Answer()
        return Probe(False, "away")

    def look(_: object, result: Probe) -> None:
        raise AssertionError(f"the wait goes on: {result}")

    before = {signum: signal.getsignal(signum) for signum in interrupts.SIGNALS}
    monkeypatch.setattr(readiness, "probe", away)
    interrupts.raise_interrupted()
    try:
        with pytest.raises(interrupts.Interrupted) as told:
            readiness.wait("http://127.0.0.1:9", "it", look)
    finally:
        interrupts.ignore_signals()
        for signum, handler in before.items():
            signal.signal(signum, handler)
    assert told.value.status == 128 + signal.SIGTERM
    interrupts.check()  # whoever unwinds may wait
