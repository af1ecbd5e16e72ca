# SPDX-License-Identifier: Apache-2.0
"""Places, clusters and signals: what the tool and its driver refuse, wait for, and end by."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tool_errors
from corpus import __main__ as parent
from corpus import arguments, driver
from corpus.job import Job
from corpus.storage import open_storage
from docparser.errors import NotReady, StorageUnavailable
from tool_errors import ServiceError, UsageError


def test_a_place_that_is_away_is_waited_for(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("corpus.job.time.monotonic", lambda: now[0])
    monkeypatch.setattr("corpus.job.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    tries: list[float] = []

    def away() -> None:
        tries.append(now[0] - 100)
        raise StorageUnavailable("away")

    with pytest.raises(StorageUnavailable):
        job.patiently(away)
    assert tries == [0, 2, 4, 6], "its patience is 5 s"
    answers = iter([StorageUnavailable("away"), None])
    assert job.patiently(lambda: _raised(next(answers))) == "there"


def _raised(error: Exception | None) -> str:
    if error:
        raise error
    return "there"


@pytest.mark.parametrize(
    ("source", "out"), [("{0}/in", "{0}/in/."), ("s3://bucket/scans", "s3://bucket/scans/")], ids=["folder", "bucket"]
)
def test_outputs_do_not_lie_among_the_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, out: str
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    places = [open_storage(place.format(tmp_path), "INPUT") for place in (source, out)]
    with pytest.raises(UsageError, match="^--out .*: this is INPUT; expected another place"):
        driver._check(*places)


def test_an_error_inside_rays_own_is_told_in_one_line() -> None:
    wrapped = RuntimeError("a trace of Ray")
    wrapped.cause = NotReady("no worker is ready")  # type: ignore[attr-defined]  # as Ray's errors have it
    found = driver.ours(wrapped)
    assert isinstance(found, ServiceError) and str(found).startswith("no worker is ready ")
    try:
        raise RuntimeError("outer") from UsageError("own")
    except RuntimeError as error:
        assert isinstance(driver.ours(error), UsageError)
    assert driver.ours(RuntimeError("unknown")) is None
    assert driver.lost(ConnectionError()) and not driver.lost(RuntimeError())


@pytest.mark.parametrize(
    ("lasting", "runs"), [((1, 1, 1, 1), 4), ((100, 1, 1, 1, 1), 5)], ids=["never there", "there for a while"]
)
def test_a_cluster_that_is_away_is_tried_again_with_patience(
    monkeypatch: pytest.MonkeyPatch, lasting: tuple[int, ...], runs: int
) -> None:
    """Patience begins anew after a driver that ran for more than a minute."""
    now, begun = [0.0], [0]

    def drive(_: object) -> None:
        now[0] += lasting[begun[0]]
        begun[0] += 1

    monkeypatch.setattr(parent.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(parent.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(parent, "drive", drive)
    options = arguments.parse(["in", "--out", "out", "--patience", "12"])
    monkeypatch.setattr(parent.arguments, "parse", lambda: options)
    with pytest.raises(ServiceError, match="Ray on this machine is away for 12 s"):
        parent.parse_corpus()
    assert begun == [runs]
    monkeypatch.setattr(parent, "drive", lambda _: 1)
    assert parent.parse_corpus() == 1


# Ends without an outcome, as a driver whose cluster went away; the second one when it is interrupted, else with 1.
LOST_DRIVER = "raise SystemExit"
ASKED_DRIVER = """
import os, signal

def deaf(*_):
    os.write(int(os.environ["CORPUS_OUTCOME_FD"]), b"1\\n")
    os._exit(1)

signal.signal(signal.SIGALRM, deaf)
signal.alarm(20)
try:
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()
except KeyboardInterrupt:
    pass
"""


@pytest.mark.parametrize(
    "drivers", [[ASKED_DRIVER], [LOST_DRIVER, ASKED_DRIVER]], ids=["first", "after a lost cluster"]
)
def test_a_signal_ends_the_tool(monkeypatch: pytest.MonkeyPatch, drivers: list[str]) -> None:
    handlers = {number: signal.getsignal(number) for number in parent.SIGNALS}
    programs = iter(drivers)
    real = subprocess.Popen

    def begin(words: list[str], **how: Any) -> Any:
        return real([words[0], "-c", next(programs)], **how)

    monkeypatch.setattr(parent.subprocess, "Popen", begin)
    monkeypatch.setattr(parent, "AGAIN_S", 0)
    options = arguments.parse(["in", "--out", "out"])
    monkeypatch.setattr(parent.arguments, "parse", lambda: options)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a script
        assert tool_errors.run(parent.parse_corpus) == tool_errors.INTERRUPTED
        with pytest.raises(KeyboardInterrupt):  # between two drivers
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
