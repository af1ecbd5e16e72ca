# SPDX-License-Identifier: Apache-2.0
"""eval_accuracy.py finds what is broken on purpose. The plugin and a real server are judged in tests/plugin."""

from __future__ import annotations

import dataclasses
import errno
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from reference import accuracy, model, report

Reference = model.ReferenceModel


@pytest.fixture
def evaluate(tool, two_lines, tmp_path):
    """Run the tool on the CPU against itself; returns the exit status and the JSON report."""

    def run(checkpoint: Path, *words: object, images: list[Path] = two_lines) -> tuple[int, dict]:
        options = ["--candidate", "cpu", "--max_new_tokens", 16, "--output", "report.md", *words]
        status = tool(accuracy, "--model_path", checkpoint, "--test_images", *images, *options)
        return status, json.loads((tmp_path / "report.json").read_text())

    return run


@pytest.fixture
def broken(monkeypatch):
    """Break every model that is loaded after the baseline's."""

    def install(damage) -> None:
        loaded, start = [], Reference.__init__

        def load(self, *arguments):
            start(self, *arguments)
            loaded.append(self)
            if len(loaded) > 1:
                damage(self)

        monkeypatch.setattr(Reference, "__init__", load)

    return install


def failed(document: dict) -> list[str]:
    return [check["name"] for check in document["checks"] if check["passed"] is False]


def test_the_same_twice_passes(evaluate, demo):
    status, document = evaluate(demo)
    assert status == 0 and document["passed"] and document["mre_percent"] == 0 and document["top1_percent"] == 100
    assert [image["positions"] for image in document["images"]][0] > 150
    assert document["images"][0]["text"].startswith("Clean Water")


def test_float16_is_judged_by_its_figures(evaluate, demo):
    """The thresholds are meant for float32; what half the bits do is seen in the figures, whatever the verdict."""
    _, document = evaluate(demo, "--dtype", "float16")
    assert 0.001 < document["mre_percent"] < 10 and document["cosine"] > 0.9999 and document["top1_percent"] > 95


def test_rotary_positions_off_by_one(evaluate, demo, broken):
    """The text after the image begins one position late, as from a wrong count of the image's rows."""

    def shift(loaded):
        inner = loaded.model.model
        original = inner.get_rope_index

        def get_rope_index(input_ids, *arguments, **options):
            positions, deltas = original(input_ids, *arguments, **options)
            last = int((input_ids[0] == loaded.image_token_id).nonzero().max())
            positions[:, :, last + 1 :] += 1
            return positions, deltas

        inner.get_rope_index = get_rope_index

    broken(shift)
    status, document = evaluate(demo)
    assert status == 1 and not document["passed"] and "MRE (eps 1e-3)" in failed(document)
    assert {worst["where"] for worst in document["worst"]} <= {"prompt", "answer"}, "what comes before is right"


def test_rotary_of_the_vision_tower_off_by_one(evaluate, demo, broken):
    """Columns of patches are counted from one in every second row."""

    def shift(loaded):
        rotary = loaded.model.model.visual.vision_model.encoder.rotary_pos_emb
        original = rotary.forward

        def forward(hidden, positions, *more, **options):
            positions = positions.clone()
            positions[..., ::2, :] += torch.tensor([0, 1])
            return original(hidden, positions, *more, **options)

        rotary.forward = forward

    broken(shift)
    status, document = evaluate(demo)
    assert status == 1 and "MRE (eps 1e-3)" in failed(document) and document["worst"][0]["error"] > 0.01


def test_swapped_images(evaluate, demo, broken, two_lines):
    """The features of one request's image land in the other's: the number of tokens is right, the text is not."""

    def swap(loaded):
        kept, make = {}, loaded.inputs
        for number, path in enumerate(two_lines):
            kept[number] = make(_case(path))["pixel_values"]
        turns = iter([kept[1], kept[0]])

        def inputs(case):
            return {**make(case), "pixel_values": next(turns)}

        loaded.inputs = inputs

    broken(swap)
    status, document = evaluate(demo)
    assert status == 1 and {"MRE (eps 1e-3)", "Top-1 agreement"} <= set(failed(document))


def _case(path: Path):
    from reference.cases import Case
    from reference.media import read_image
    from tests.reference.golden import PROMPT

    return Case(PROMPT, [read_image(path)])


def test_float16_overflow(evaluate, demo, tmp_path):
    """Image features above 65504: float32 computes with them, float16 has only infinity."""
    checkpoint = tmp_path / "large"
    checkpoint.mkdir()
    for file in demo.iterdir():
        if file.suffix in (".json", ".jinja"):
            (checkpoint / file.name).write_bytes(file.read_bytes())
    tensors = load_file(demo / "model.safetensors")
    last = [name for name in tensors if "mlp_AR.linear_2" in name or "projector.linear_2" in name]
    assert last, "the projector's last layer has another name"
    save_file(
        {name: value * (3e4 if name in last else 1) for name, value in tensors.items()},
        checkpoint / "model.safetensors",
        metadata={"format": "pt"},
    )
    status, document = evaluate(checkpoint)
    assert status == 0, "float32 is not bothered"
    status, document = evaluate(checkpoint, "--dtype", "float16")
    assert status == 1 and failed(document)[0] == "Finite logits" and document["images"][0]["not_finite"] > 0
    assert document["mre_percent"] is None


def test_another_number_of_image_tokens(evaluate, demo, broken):
    """A processor that resizes otherwise gives other tokens: there is nothing to compare, and that is said."""

    def resize(loaded):
        make = loaded.inputs

        def inputs(case):
            return make(dataclasses.replace(case, min_pixels=784, max_pixels=case.max_pixels // 16))

        loaded.inputs = inputs

    broken(resize)
    status, document = evaluate(demo)
    assert status == 1 and failed(document)[0] == "Same input tokens"


@pytest.fixture
def no_model(monkeypatch):
    """Nothing is computed: what is wrong is known before."""
    monkeypatch.setattr("reference.model.ReferenceModel", lambda *_: pytest.fail("the baseline was loaded"))


def test_a_disk_that_is_full_takes_no_verdict_away(tool, demo, two_lines, monkeypatch, capsys):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(report, "write", full)
    words = ["--model_path", demo, "--test_images", two_lines[0], "--candidate", "cpu", "--max_new_tokens", 2]
    assert tool(accuracy, *words) == 1
    out, err = capsys.readouterr()
    assert "ok   Top-1 agreement" in out and "No space left" in err


def test_wrong_arguments(tool, demo, two_lines, capsys, no_model):
    shared = ["--model_path", demo, "--test_images", *two_lines]
    assert tool(accuracy, *shared, "--candidate", "tpu") == 2
    assert tool(accuracy, *shared, "--candidate", "cpu", "--output", "x.txt") == 2
    assert tool(accuracy, *shared, "--candidate", "cpu", "--output", "absent/x.md") == 2
    assert tool(accuracy, *shared, "--candidate", "vllm:localhost") == 2
    assert tool(accuracy, *shared, "--candidate", "vllm:http://127.0.0.1:9") == 4
    assert tool(accuracy, *shared, "--candidate", "plugin", "--plugin_python", "/nowhere") == 3
    assert tool(accuracy, *shared, "--candidate", "plugin", "--plugin_python", "/bin/false") == 4
    assert tool(accuracy, *shared, "--candidate", "npu") == 3
    err = capsys.readouterr().err
    assert "expected vllm:http://HOST" in err and "cannot be reached" in err and "scripts/setup_env.sh vlm" in err
