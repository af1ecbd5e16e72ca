# SPDX-License-Identifier: Apache-2.0
"""eval_accuracy.py, eval_performance.py and the self-test with every family: transformers' own classes, random weights.

The server is transformers too; the plugin and a real server are judged in tests/plugin.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from reference import accuracy, performance, plugin, record_golden, timing
from reference.cases import Case
from reference.device import Device
from reference.families import FAMILIES
from reference.model import ReferenceModel
from reference.prompts import OF_FAMILY, Form
from reference.results import Results
from selftest import check as selftest
from tests.reference.reference_server import ReferenceServer
from tests.support.paths import GOLDEN
from tool_errors import DeviceError, EnvironmentSetupError, UsageError

pytestmark = pytest.mark.model
SERVED = {"paddleocr_vl": "PaddleOCR-VL-0.9B", "qwen2_vl": "Qwen2-VL-2B-Instruct", "hunyuan_vl": "HunyuanOCR"}
TOKENS = 4


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def weights(family: str, models: dict[str, Path], small: Path) -> Path:
    return models.get(family, small)


@pytest.fixture(scope="module")
def _server(family: str, weights: Path) -> Iterator[ReferenceServer]:
    server = ReferenceServer(weights, SERVED[family])
    yield server
    server.close()


@pytest.fixture
def server(_server: ReferenceServer) -> ReferenceServer:
    _server.asked.clear()
    _server.off_by = 0.0
    return _server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One golden block and a short answer: random weights never end one."""
    files = selftest.blocks()[:1]
    for module in (selftest, record_golden):
        monkeypatch.setattr(module, "MAX_NEW_TOKENS", TOKENS)
        monkeypatch.setattr(module, "blocks", lambda: files)


def test_accuracy_of_a_device_and_of_a_server(tool, family, weights, server, two_lines, tmp_path):
    shared = ["--model_path", weights, "--max_new_tokens", TOKENS, "--output", "report.md", "--test_images", *two_lines]
    shared += ["--min_pixels", 1024, "--max_pixels", 32768]
    assert tool(accuracy, *shared, "--candidate", "cpu") == 0
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["passed"] and document["mre_percent"] == 0 and len(document["images"]) == 2
    assert tool(accuracy, *shared, "--candidate", f"vllm:{server.url}") == 0
    assert server.asked == [OF_FAMILY[family]["ocr"]] * 2
    server.off_by = -0.5
    assert tool(accuracy, *shared, "--candidate", f"vllm:{server.url}") == 1, "what differs is seen"


def test_crops_with_lower_lines_are_judged_as_the_parser_sends_them(tool, models, small, tmp_path, capsys):
    picture = tmp_path / "scan.png"
    Image.open(GOLDEN / "lines.png").convert("RGB").resize((2096, 488)).save(picture)
    shared = ["--model_path", small, "--max_new_tokens", TOKENS, "--output", "report.md", "--test_images", picture]
    server = ReferenceServer(small, SERVED["paddleocr_vl"])
    try:
        words = [*shared, "--candidate", f"vllm:{server.url}", "--line_pixels"]
        tool(accuracy, *words, 24)  # random weights see another picture
        found = re.search(r"scan.png: (\d+) tokens of the image, (\d+) with --line_pixels", capsys.readouterr().err)
        assert found is not None and 0 < int(found[2]) < 0.3 * int(found[1])
        document = json.loads((tmp_path / "report.json").read_text())
        checks = {check["name"]: check["passed"] for check in document["checks"]}
        assert checks["Same input tokens"] is True, "but for the image's"
        assert document["settings"]["candidate"].endswith("lines of 24 pixels")
        assert tool(accuracy, *words, 96) == 0, "nothing to gain, so the crop stays as it is"
        for wrong in ([97], [-1], [24, "--task", "formula"], [24, "--prompt", "OCR:"], [24, "--candidate", "cpu"]):
            assert tool(accuracy, *words, *wrong) == 2
        for wrong in (["--min_pixels", 9], ["--model_path", models["hunyuan_vl"]]):
            capsys.readouterr()
            assert tool(accuracy, *words, 24, *wrong) == 2 and "asks as the parser does" in capsys.readouterr().err
    finally:
        server.close()


def test_performance(tool, weights, tmp_path, monkeypatch):
    # In this process: its start would take longer than the measurement.
    monkeypatch.setattr(performance, "time_device", lambda job: timing.measure(timing.Benchmark(**job)))
    words = ["--devices", "cpu", "--num_runs", 1, "--warmup", 0, "--new_tokens", 2, "--output", "speed.md"]
    assert tool(performance, "--model_path", weights, "--image", GOLDEN / "title.png", *words) == 0
    (device,) = json.loads((tmp_path / "speed.json").read_text())["devices"]
    assert device["new_tokens"] == 2 and device["first_token_ms"] > 0 and device["prompt_tokens"] > 50


def test_the_self_test_records_and_knows_what_differs(tool, family, weights, server, quick, tmp_path, capsys):
    assert tool(record_golden, "--model_path", weights) == 0
    recorded = {"weights": selftest.fingerprint(weights), **json.loads(capsys.readouterr().out)}
    values = tmp_path / "values.json"
    values.write_text(json.dumps(recorded))

    def check() -> list[selftest.Finding]:
        return selftest.check_blocks(selftest.Server(server.url), selftest.load(values, weights))

    findings = check()
    assert len(findings) == 1 and findings[0].passed, findings
    assert server.asked == [OF_FAMILY[family]["ocr"]]
    server.off_by = 0.2
    assert not any(one.passed for one in check())
    values.write_text(json.dumps({**recorded, "question": {"prompt": "", "pixels": "1 to 2"}}))
    with pytest.raises(UsageError, match=r"selftest\.json: question\.prompt is ''"):
        check()


def test_a_published_penalty_is_for_reading_not_for_judging(models, tmp_path):
    """HunyuanOCR's generation_config.json has one, and a server's greedy tokens know none."""
    weights = tmp_path / "penalty"
    weights.mkdir()
    for file in models["hunyuan_vl"].iterdir():
        (weights / file.name).symlink_to(file)
    (weights / "generation_config.json").unlink(missing_ok=True)
    (weights / "generation_config.json").write_text(json.dumps({"repetition_penalty": 1000.0}))
    model = ReferenceModel(weights, Device("cpu"))
    case = Case(Form.of(weights).complete("Hello"))
    tokens = model.generate(case, TOKENS)
    forced = model.logits(dataclasses.replace(case, answer=tokens))["logits"]
    assert tokens == forced[-TOKENS - 1 : -1].argmax(-1).tolist()
    assert model.read(case, TOKENS, None) != tokens, "a random model says its last token again and again"


@pytest.fixture
def pythons(tmp_path: Path) -> list[Path]:
    """Simulated environments: one of a stack that does not serve the model, one that breaks off, one that serves it and
    breaks off when it computes."""
    texts = (
        "echo 'error: HunyuanOCR needs stack 0.23.0, but this is 0.11.1' >&2; exit 3",
        "echo broken >&2; exit 1",
        'case "$*" in *--cases*) exit 5 ;; esac',
    )
    files = [tmp_path / f"python{number}" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
    return files


def test_the_plugin_runs_where_the_stack_serves_the_model(tmp_path, pythons):
    options = argparse.Namespace(model_path=tmp_path, dtype="float32", plugin_python=pythons[:1])
    with pytest.raises(EnvironmentSetupError, match=r"^--plugin_python: HunyuanOCR needs stack 0\.23\.0, but this is"):
        plugin.python_of(options)
    options.plugin_python = pythons[:2]
    with pytest.raises(DeviceError, match="ended with status 1"):  # the second was asked
        plugin.python_of(options)
    options.plugin_python = [pythons[0], pythons[2]]
    assert plugin.python_of(options) == pythons[2]
    with pytest.raises(DeviceError, match="ended with status 5"):
        plugin.compute(pythons[2], options, [], Results(tmp_path, "candidate"))
