# SPDX-License-Identifier: Apache-2.0
"""PARSER_SELFTEST: ready only after the VLM has given the recorded values. The real self-test runs, as a process; the
VLM and its weights are simulated."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from docparser.contract.service_answers import VlmState
from docparser.models import readiness, vlm_probe
from docparser.models.readiness import Readiness
from docparser.models.served_model import ServedModel
from docparser.parsing.pool import State, WorkerPool
from docparser.settings import REPOSITORY, Settings
from selftest.check import compare, recorded_question
from selftest.server import Answer
from served_weights.catalog import DEFAULT_FILE, Catalog
from served_weights.question import Question
from tests.support.simulated_vlm import SimulatedVlm, prompt_of
from tool_errors import UsageError

GOLDEN = REPOSITORY / "common/selftest/golden"
TOKENS = [7, 8, 2]
LOGPROBS = [-0.01, -0.02, -0.03]


class RecordedVlm(SimulatedVlm):
    """Answers each golden block with the recorded tokens; ``off_by`` (nats) is what its log-probabilities differ by.
    ``question`` is all that it knows: other words and other bounds of pixels are refused."""

    off_by = 0.0
    asked = 0
    question = Question("OCR:", 112896, 1003520)

    def complete(self, request: dict) -> tuple[int, dict]:
        bounds = {"min_pixels": self.question.min_pixels, "max_pixels": self.question.max_pixels}
        if prompt_of(request) != self.question.prompt or request["mm_processor_kwargs"] != bounds:
            return 400, {"error": {"message": "this is no question for this model"}}
        # The entries of some models have a penalty for a request that says nothing: other tokens.
        assert request["repetition_penalty"] == 1.0
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
    recorded = {"weights": of, "question": RecordedVlm.question.as_entry(), "blocks": blocks}
    (tmp_path / "selftest.json").write_text(json.dumps(recorded))
    return tmp_path


@pytest.fixture
def recorded_vlm(weights: Path, monkeypatch):
    monkeypatch.setattr(vlm_probe, "REMEMBERED_S", 0.0)
    vlm = RecordedVlm()
    vlm.root = str(weights)
    yield vlm
    vlm.close()


def models(vlm: SimulatedVlm, **settings) -> Readiness:
    """Readiness as the service has it, with a pool whose worker is there."""
    own = Settings(vlm_url=vlm.url, workers=1, **settings)
    pool = WorkerPool(own)
    pool.workers[0].state = State.READY
    return Readiness(own, pool, ServedModel.of(own))


async def settled(found: Readiness, until: str = "") -> tuple[VlmState, str]:
    """The VLM's state and the trouble, once the trouble is none or contains ``until``."""
    deadline = time.monotonic() + 120
    while True:
        states, trouble = await found.check()
        words = " ".join(trouble)
        if not words or (until and until in words):
            return states["vlm"], words
        assert time.monotonic() < deadline, words
        await asyncio.sleep(0.1)


def test_off_by_default(recorded_vlm):
    async def scenario():
        found = models(recorded_vlm)
        states, trouble = await found.check()
        await found.close()
        assert not trouble and "selfTestPassed" not in states["vlm"]

    asyncio.run(scenario())
    assert recorded_vlm.asked == 0


def test_ready_after_it_passed_once_and_again_after_the_vlm_was_away(recorded_vlm):
    async def scenario():
        found = models(recorded_vlm, selftest=True)
        states, trouble = await found.check()
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
        monkeypatch.setattr(readiness, "RETRY_S", 0.0)
        vlm, _ = await settled(found)
        assert vlm["selfTestPassed"]
        await found.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("length", [1, 2, 3])
def test_an_answer_that_was_cut_is_none(length):
    recorded = {"image": "a.png", "text": "text", "tokens": TOKENS, "logprobs": LOGPROBS, "margins": [9.0] * 3}
    probable = [{token: probability} for token, probability in zip(TOKENS[:length], LOGPROBS)]
    assert compare(recorded, Answer([1], TOKENS[:length], probable, "text"), 0.05).passed == (length == 3)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("margin", "passed"), [(0.1, True), (0.9, False)])
def test_at_a_near_tie_the_device_may_choose_the_other_token(place: int, margin: float, passed: bool):
    margins = [9.0] * 3
    margins[place] = margin
    recorded = {"image": "a.png", "text": "text", "tokens": TOKENS, "logprobs": LOGPROBS, "margins": margins}
    tokens = [*TOKENS[:place], 98, 99]
    probable = [{token: probability} for token, probability in zip(tokens, LOGPROBS)]
    found = compare(recorded, Answer([1], tokens, probable, "text"), 0.05)
    assert found.passed == passed and f"another token at {place} of 3" in found.words
    assert not compare({**recorded, "margins": [margin] * 3}, Answer([1], [], [], ""), 0.05).passed, "no answer at all"


def test_values_of_other_weights_are_told_apart(recorded_vlm, weights):
    async def scenario():
        found = models(recorded_vlm, selftest=True)
        (weights / "model.safetensors").write_bytes(b"other weights")
        _, words = await settled(found, "did not pass")
        assert "recorded for other weights" in words
        await found.close()

    asyncio.run(scenario())
    assert recorded_vlm.asked == 0


def test_closing_ends_a_test_that_runs(recorded_vlm):
    async def scenario():
        found = models(recorded_vlm, selftest=True)
        recorded_vlm.delay_s = 60
        await found.check()
        while not recorded_vlm.asked:
            await asyncio.sleep(0.1)
        started = time.monotonic()
        await found.close()
        assert time.monotonic() - started < 45, "it does not wait for the VLM's answer"

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["PaddleOCR-VL-1.6", "Qwen2-VL-2B-Instruct", "HunyuanOCR"])
def test_every_family_is_asked_what_was_recorded_for_it(recorded_vlm, weights, name):
    """The newer families read whole pages and know PaddleOCR-VL's words as little as its bounds."""
    entry = Catalog.load(DEFAULT_FILE).models[name]
    assert entry.golden
    recorded_vlm.model, recorded_vlm.question = entry.served_name, entry.golden
    values = weights / "selftest.json"
    values.write_text(json.dumps(json.loads(values.read_text()) | {"question": entry.golden.as_entry()}))

    async def scenario():
        found = models(recorded_vlm, selftest=True, vlm_model=name)
        vlm, _ = await settled(found)
        assert vlm["ready"] and vlm["selfTestPassed"]
        await found.close()

    asyncio.run(scenario())
    assert recorded_vlm.asked == len(list(GOLDEN.glob("*.png")))


def test_without_recorded_values_it_is_not_ready_and_says_what_to_do(recorded_vlm, weights):
    """Nobody can say that this server computes what it should."""
    (weights / "selftest.json").unlink()
    recorded_vlm.model = "HunyuanOCR"

    async def scenario():
        found = models(recorded_vlm, selftest=True, vlm_model="HunyuanOCR")
        vlm, words = await settled(found, "did not pass")
        assert not vlm["ready"] and "no recorded values" in words and "scripts/selftest.sh --record" in words
        await found.close()

    asyncio.run(scenario())
    assert recorded_vlm.asked == 0


def test_recorded_values_without_a_question_say_nothing_of_a_model():
    with pytest.raises(UsageError, match=r"selftest\.json: question\.prompt is None"):
        recorded_question({"blocks": []})


@pytest.mark.server
def test_a_parser_of_whole_pages_is_ready_after_it(recorded_vlm, weights, start_service):
    entry = Catalog.load(DEFAULT_FILE).models["HunyuanOCR"]
    assert entry.golden
    recorded_vlm.model, recorded_vlm.question = entry.served_name, entry.golden
    values = weights / "selftest.json"
    values.write_text(json.dumps(json.loads(values.read_text()) | {"question": entry.golden.as_entry()}))
    service = start_service(VLM_URL=recorded_vlm.url, VLM_MODEL=entry.name, PARSER_SELFTEST="1").wait()
    ready = service.client.get("/health/ready").json()["result"]
    assert ready["vlm"]["selfTestPassed"] is True and ready["layout"]["model"] is None


def ports_file(folder: Path, *servers: SimulatedVlm) -> Path:
    path = folder / "replicas.json"
    path.write_text(json.dumps({"settings": {}, "ports": [server.port for server in servers]}))
    return path


@pytest.mark.server
def test_a_bad_replica_cannot_hide_behind_a_good_one(recorded_vlm: RecordedVlm, weights: Path, tmp_path: Path):
    """Each replica is asked by itself; one computes other values, one is gone."""
    bad = RecordedVlm()
    bad.root, bad.off_by = str(weights), 1.0
    gone = RecordedVlm()
    listed = ports_file(tmp_path, recorded_vlm, bad, gone)
    gone.close()
    try:
        command = [sys.executable, "-m", "selftest", "--replicas", str(listed), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    finally:
        bad.close()
    verdict = json.loads(done.stdout)
    assert done.returncode == 1 and verdict["passed"] is False
    passed = {finding["name"]: finding["passed"] for finding in verdict["findings"]}
    blocks = len(list(GOLDEN.glob("*.png")))
    assert len(passed) == 2 * blocks + 1 and passed["replica 2"] is False
    for name, well in passed.items():
        assert well is name.startswith("replica 0, ")
    assert recorded_vlm.asked == bad.asked == blocks


def test_a_file_of_replicas_that_is_none(tmp_path: Path):
    command = [sys.executable, "-m", "selftest", "--replicas", str(tmp_path / "no.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "no.json" in done.stderr and len(done.stderr.splitlines()) == 1
