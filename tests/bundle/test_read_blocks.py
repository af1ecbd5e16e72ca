# SPDX-License-Identifier: Apache-2.0
"""python -m selftest.read: one block by each replica, without recorded values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.simulated_http import JsonHandler, SimulatedServer


class SimulatedReplica(SimulatedServer):
    """Says `text` for every picture, in the form of vLLM's answers with token ids."""

    text = "The same sentence."

    def handler(self) -> type[JsonHandler]:
        replica = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                self.reply(200, {"data": [{"id": "m", "root": "/models/m"}]})

            def do_POST(self) -> None:
                self.body()
                entry = {"token": "token_id:1", "top_logprobs": [{"token": "token_id:1", "logprob": -0.1}]}
                choice = {"message": {"content": replica.text}, "logprobs": {"content": [entry]}, "token_ids": [1]}
                self.reply(200, {"prompt_token_ids": [1], "choices": [choice]})

        return Handler


@pytest.fixture
def replicas() -> Iterator[list[SimulatedReplica]]:
    found = [SimulatedReplica() for _ in range(3)]
    yield found
    for replica in found:
        replica.close()


def read(folder: Path, replicas: list[SimulatedReplica]) -> tuple[int, list[dict]]:
    file = folder / "replicas.json"
    file.write_text(json.dumps({"ports": [replica.port for replica in replicas]}))
    done = subprocess.run(
        [sys.executable, "-m", "selftest.read", "--replicas", file],
        env={**os.environ, "PYTHONPATH": str(ROOT / "common")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.server
def test_replicas_that_agree(replicas: list[SimulatedReplica], tmp_path: Path):
    status, found = read(tmp_path, replicas)
    assert status == 0 and [answer["text"] for answer in found] == ["The same sentence."] * 3
    assert not any(answer["error"] for answer in found)


@pytest.mark.server
def test_one_that_differs_reads_nothing_or_is_away(replicas: list[SimulatedReplica], tmp_path: Path):
    replicas[1].text = "The some sentence."
    status, found = read(tmp_path, replicas)
    assert status == 1
    assert [answer["error"] for answer in found] == ["", "reads another text than 2 of 3 replicas", ""]
    replicas[1].text = " "
    replicas[2].close()
    status, found = read(tmp_path, replicas)
    assert status == 1 and found[0]["error"] == "" and found[1]["error"] == "read nothing"
    assert "cannot be reached" in found[2]["error"]
