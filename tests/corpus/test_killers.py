# SPDX-License-Identifier: Apache-2.0
"""A document that ends the process that reads it is set aside; the others are read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corpus.attempts import DEATHS, Attempts
from tests.support import corpus
from tests.support.paths import ROOT
from tests.support.simulated_vlm import SimulatedVlm
from tests.support.wait import WAIT_S


@pytest.mark.long
@pytest.mark.server
def test_a_part_that_ends_its_readers(tmp_path: Path, vlms: list[SimulatedVlm]) -> None:
    """Both readers have parts of the only document, and are killed while the VLM has its pages; then their followers
    are."""
    corpus.make(tmp_path / "in", [2])
    with vlms[0].holding(), vlms[1].holding():
        servers = [word for vlm in vlms for word in ("--vlm-url", vlm.url)]
        command = [sys.executable, str(ROOT / "scripts/parse_corpus.py"), "in", "--out", "out", "--cpus", "1", *servers]
        run = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
        for _ in range(DEATHS):
            _wait_until_asked(vlms)
            for pid in _readers(run.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        _, told = run.communicate(timeout=WAIT_S)
    assert run.returncode == 1 and "0 of 1 document done, 1 set aside" in told
    (aside,) = (tmp_path / "out/_corpus/aside").rglob("*.json")
    assert json.loads(aside.read_text())["reason"] == "pages 1 to 2 ended 2 processes that read them"


def _wait_until_asked(vlms: list[SimulatedVlm]) -> None:
    """A page is with the VLM; what was asked for so far is forgotten."""
    deadline = time.monotonic() + WAIT_S
    while not any(request.get("max_tokens") != 1 for vlm in vlms for request in vlm.requests):
        assert time.monotonic() < deadline, "no page came to the VLM"
        time.sleep(0.1)
    for vlm in vlms:
        vlm.requests.clear()


def _readers(session: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"PartReader" in (folder / "cmdline").read_bytes() and os.getsid(int(folder.name)) == session:
                found.append(int(folder.name))
    assert found, "a reader has the part"
    return found


def test_attempts_are_counted_once() -> None:
    attempts = Attempts()
    assert attempts.begin("part", "a")
    assert attempts.begin("part", "a"), "Ray repeats a call whose answer it did not get"
    assert attempts.begin("part", "b")
    assert not attempts.begin("part", "c")
    attempts.end("other")
    assert attempts.begin("other", "d")
    attempts.end("part")
    assert attempts.begin("part", "e"), "who ends a part has survived it"
