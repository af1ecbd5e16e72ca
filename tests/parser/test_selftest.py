# SPDX-License-Identifier: Apache-2.0
"""PARSER_SELFTEST: ready only after the VLM has given the recorded values. The real self-test runs, as a process; the VLM
and its weights are simulated."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_vlm import FakeVlm

from docparser import selftest, vlm_probe
from docparser.models import Models
from docparser.settings import Settings

GOLDEN = selftest.MODEL_CODE / "reference/golden"
TOKENS = [7, 8, 2]
LOGPROBS = [-0.01, -0.02, -0.03]


class RecordedVlm(FakeVlm):
    """Answers each golden block with the recorded tokens; ``off_by`` (nats) is what its log-probabilities differ by."""

    off_by = 0.0
    asked = 0

    def complete(self, request: dict) -> tuple[int, dict]:
        part = next(part for part in request["messages"][0]["content"] if part["type"] == "image_url")
        image = base64.b64decode(part["image_url"]["url"].partition(",")[2])
        assert image in [path.read_bytes() for path in GOLDEN.glob("*.png")]
        self.asked += 1
        time.sleep(self.delay_s)
        content = [
            {
                "token": f"token_id:{token}",
                "top_logprobs": [{"token": f"token_id:{token}", "logprob": value - self.off_by}],
            }
            for token, value in zip(TOKENS, LOGPROBS)
        ]
        choice = {"message": {"content": "text"}, "token_ids": TOKENS, "logprobs": {"content": content}}
        return 200, {"prompt_token_ids": [1], "choices": [choice]}


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A folder with a weights file and the values recorded for it."""
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    blocks = [
        {"image": path.name, "text": "text", "tokens": TOKENS, "logprobs": LOGPROBS, "margins": [9.0] * len(TOKENS)}
        for path in sorted(GOLDEN.glob("*.png"))
    ]
    of = hashlib.sha256(hashlib.sha256(b"weights").digest()).hexdigest()
    (tmp_path / "selftest.json").write_text(json.dumps({"weights": of, "blocks": blocks}))
    return tmp_path


@pytest.fixture
def recorded_vlm(weights: Path, monkeypatch):
    monkeypatch.setattr(vlm_probe, "REMEMBERED_S", 0.0)
    vlm = RecordedVlm()
    vlm.root = str(weights)
    yield vlm
    if vlm.server.socket.fileno() != -1:
        vlm.close()


def models(vlm: FakeVlm, **settings) -> Models:
    """Readiness as the service has it, with a pool whose worker is there."""
    pool = SimpleNamespace(ready=1, not_ready_because="", last_vlm_answer=float("-inf"))
    return Models(Settings(vlm_url=vlm.url, **settings), pool)


async def settled(found: Models, until: str = "") -> tuple[dict, str]:
    """The VLM's state and the trouble, once the trouble is none or contains ``until``."""
    deadline = time.monotonic() + 120
    while True:
        states, trouble = await found.readiness()
        words = " ".join(trouble)
        if not words or (until and until in words):
            return states["vlm"], words
        assert time.monotonic() < deadline, words
        await asyncio.sleep(0.1)


def test_off_by_default(recorded_vlm):
    async def scenario():
        found = models(recorded_vlm)
        states, trouble = await found.readiness()
        await found.close()
        assert not trouble and "selfTestPassed" not in states["vlm"]

    asyncio.run(scenario())
    assert recorded_vlm.asked == 0


def test_ready_after_it_passed_once_and_again_after_the_vlm_was_away(recorded_vlm):
    async def scenario():
        found = models(recorded_vlm, selftest=True)
        states, trouble = await found.readiness()
        assert "has not ended yet" in trouble[0] and not states["vlm"]["ready"], "it does not wait for the test"
        vlm, _ = await settled(found)
        assert vlm["ready"] and vlm["selfTestPassed"]
        blocks = recorded_vlm.asked
        assert blocks == len(list(GOLDEN.glob("*.png")))
        await settled(found)
        assert recorded_vlm.asked == blocks, "once is enough"
        recorded_vlm.healthy = False
        vlm, _ = await settled(found, "not healthy")
        assert vlm["selfTestPassed"] is False
        recorded_vlm.healthy = True
        await settled(found)
        assert recorded_vlm.asked == 2 * blocks
        await found.close()

    asyncio.run(scenario())


def test_a_vlm_that_computes_something_else_is_not_ready_until_it_is_mended(recorded_vlm, monkeypatch):
    async def scenario():
        found = models(recorded_vlm, selftest=True)
        recorded_vlm.off_by = 0.2
        vlm, words = await settled(found, "did not pass")
        assert not vlm["ready"] and "FAIL" in words and "0.2000" in words
        asked = recorded_vlm.asked
        await settled(found, "did not pass")
        assert recorded_vlm.asked == asked, "not at every probe"
        recorded_vlm.off_by = 0.0
        monkeypatch.setattr(selftest, "RETRY_S", 0.0)
        vlm, _ = await settled(found)
        assert vlm["selfTestPassed"]
        await found.close()

    asyncio.run(scenario())


def test_values_of_other_weights_are_told_apart(recorded_vlm, weights):
    async def scenario():
        found = models(recorded_vlm, selftest=True)
        (weights / "model.safetensors").write_bytes(b"other weights")
        _, words = await settled(found, "did not pass")
        assert "belong to other weights" in words
        await found.close()

    asyncio.run(scenario())
    assert recorded_vlm.asked == 0


def test_closing_ends_a_test_that_runs(recorded_vlm):
    async def scenario():
        found = models(recorded_vlm, selftest=True)
        recorded_vlm.delay_s = 60
        await found.readiness()
        while not recorded_vlm.asked:
            await asyncio.sleep(0.1)
        started = time.monotonic()
        await found.close()
        assert time.monotonic() - started < 45, "it does not wait for the VLM's answer"

    asyncio.run(scenario())


def test_the_service_says_so_over_http(recorded_vlm, start_service):
    service = start_service(VLM_URL=recorded_vlm.url, PARSER_SELFTEST="1").wait()
    assert service.client.get("/health/ready").json()["result"]["vlm"]["selfTestPassed"] is True
