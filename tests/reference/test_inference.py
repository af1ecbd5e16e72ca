# SPDX-License-Identifier: Apache-2.0
"""inference.py on the demo weights and on random ones of the published shapes."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from random_checkpoints import make
from reference import inference
from reference.device import Device
from reference.media import named, read_image
from tests.reference.golden import case
from tests.support.paths import GOLDEN, ROOT


def test_text_on_stdout_everything_else_on_stderr(tool, demo, capsys):
    assert tool(inference, "--model_path", demo, "--image", GOLDEN / "title.png", "--device", "cpu") == 0
    out, err = capsys.readouterr()
    assert "Clean Water" in out and len(out.splitlines()) == 1
    assert "float32" in err and "tokens in" in err and "cut at" not in err


@pytest.fixture
def later(demo: Path, tmp_path: Path) -> Path:
    """The demo weights, by their template a version that knows places."""
    shutil.copytree(demo, tmp_path / "later")
    (tmp_path / "later/chat_template.jinja").write_text(r"""{{- "Assistant:\n" -}}""")
    return tmp_path / "later"


def test_special_tokens_are_kept_where_places_are_asked_for(tool, demo, later, monkeypatch):
    """The demo has no `<|LOC_17|>`; another special token takes the part of one."""
    from transformers import AutoTokenizer, TextStreamer

    said: list[str] = []
    monkeypatch.setattr(TextStreamer, "on_finalized_text", lambda self, text, stream_end=False: said.append(text))

    def read(self, case, most, streamer):
        streamer.next_tokens_are_prompt = False
        tokenizer = AutoTokenizer.from_pretrained(demo)
        tokens = [tokenizer.convert_tokens_to_ids(token) for token in ("<|IMAGE_START|>", "</s>")]
        for token in tokens:
            streamer.put(torch.tensor([token]))
        streamer.end()
        return tokens

    monkeypatch.setattr("reference.model.ReferenceModel.read", read)
    words = ["--model_path", later, "--image", GOLDEN / "title.png", "--device", "cpu", "--task"]
    assert tool(inference, *words, "spotting") == 0 and "".join(said) == "<|IMAGE_START|>"
    said.clear()
    assert tool(inference, *words, "ocr") == 0 and "".join(said) == ""


def test_several_images_and_a_cut_answer(tool, demo, capsys):
    files = [GOLDEN / "title.png", GOLDEN / "lines.png"]
    assert tool(inference, "--model_path", demo, "--image", *files, "--device", "cpu", "--max_new_tokens", 3) == 0
    err = capsys.readouterr().err
    assert "== title.png" in err and "== lines.png" in err and "cut at --max_new_tokens 3" in err


def test_a_page_is_read_and_the_tool_says_what_reads_pages(tool, demo, capsys):
    page = ROOT / "tests/data/letter.png"
    words = ("--model_path", demo, "--device", "cpu", "--max_new_tokens", 1, "--image")
    assert tool(inference, *words, page) == 0
    err = capsys.readouterr().err
    assert "are reduced to 1003520. PaddleOCR-VL reads blocks" in err and "scripts/run_demo.sh" in err
    assert tool(inference, *words, GOLDEN / "title.png") == 0 and "reads blocks" not in capsys.readouterr().err


def test_places_are_looked_for_on_pages(later, tmp_path, capsys):
    """With the pixels that PaddleX gives a page, and a small page as large as it makes it."""
    Image.new("RGB", (600, 1499)).save(tmp_path / "small.png")
    Image.new("RGB", (1500, 1400)).save(tmp_path / "large.png")
    pages = named([tmp_path / "small.png", tmp_path / "large.png"])
    options = argparse.Namespace(model_path=later, prompt=None, task="spotting", min_pixels=None, max_pixels=None)
    cases = inference.cases_of(options, pages)
    assert [case.images[0].shape for _, case in cases] == [(2998, 1200, 3), (1400, 1500, 3)]
    assert {(case.min_pixels, case.max_pixels) for _, case in cases} == {(112896, 1605632)}
    assert capsys.readouterr().err == "", "no page is taken for a block that is too large"
    options.task, options.max_pixels = "ocr", 784_000
    (_, case), _ = inference.cases_of(options, pages)
    assert case.images[0].shape == (1499, 600, 3) and case.max_pixels == 784_000
    assert capsys.readouterr().err.count("reads blocks") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--image", "absent.png"], "absent.png: no such file"),
        (["--image", ROOT / "tests/data/handbook.pdf"], "scripts/parse_folder.py"),
        (["--image", ROOT / "README.md"], "no image that is known"),
        (["--image", GOLDEN / "title.png", "--model_path", "."], "has no config.json"),
        (["--image", GOLDEN / "title.png", "--min_pixels", 9, "--max_pixels", 5], "expected 0 < min <= max"),
        (["--image", GOLDEN / "title.png", "--prompt", "<|IMAGE_PLACEHOLDER|>"], "must stand between"),
        (["--image", "thin.png"], "too long and thin"),
    ],
)
def test_wrong_arguments_end_with_one_line(tool, demo, capsys, tmp_path, words, message):
    Image.new("RGB", (3000, 2)).save(tmp_path / "thin.png")
    assert tool(inference, "--model_path", demo, "--device", "cpu", *words) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and message in errors[0]


def test_weights_that_are_not_whole(tool, demo, capsys, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(demo, tmp_path / "part")
    tensors = load_file(tmp_path / "part/model.safetensors")
    tensors.pop(next(name for name in tensors if name.endswith("layers.0.mlp.up_proj.weight")))
    save_file(tensors, tmp_path / "part/model.safetensors", metadata={"format": "pt"})
    assert tool(inference, "--model_path", "part", "--image", GOLDEN / "title.png", "--device", "cpu") == 2
    assert (
        "the weights lack 1 tensors of the model, model.language_model.layers.0.mlp.up_proj" in capsys.readouterr().err
    )


def test_pictures_of_every_kind(tmp_path):
    Image.new("RGBA", (4, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (read_image(tmp_path / "clear.png") == 255).all(), "transparency is white paper"
    Image.new("RGB", (4, 2), "red").save(tmp_path / "named.png", transparency=(255, 0, 0))
    assert (read_image(tmp_path / "named.png") == 255).all(), "a colour that is named as transparent too"
    upright = Image.new("L", (4, 2))
    exif = upright.getexif()
    exif[0x0112] = 6
    exif[0x0110] = "a camera"
    # The camera's tag as the resolution's, which is no text.
    upright.save(tmp_path / "turned.jpg", exif=exif.tobytes().replace(b"\x01\x10\x00\x02", b"\x01\x1a\x00\x02"))
    assert read_image(tmp_path / "turned.jpg").shape == (4, 2, 3)
    grey = np.linspace(0, 65535, 256, dtype=np.uint16).reshape(16, 16)  # steps of 257
    Image.fromarray(grey).save(tmp_path / "deep.png")
    assert (read_image(tmp_path / "deep.png")[..., 0] == np.arange(256).reshape(16, 16)).all(), "16 bits are scaled"


@pytest.mark.long
@pytest.mark.model
def test_published_layer_shapes(tool, tmp_path, capsys):
    make.save_checkpoint(tmp_path / "full", 2, 2, small=False, seed=0)
    words = ["--image", GOLDEN / "title.png", "--device", "cpu", "--dtype", "bfloat16", "--max_new_tokens", 2]
    assert tool(inference, "--model_path", tmp_path / "full", *words) == 0
    assert "title.png: 2 tokens" in capsys.readouterr().err


def test_the_answer_is_forced_as_tokens(demo):
    """Position n of the forced run predicts what greedy generation chose there."""
    from reference.model import ReferenceModel

    model = ReferenceModel(demo, Device("cpu"))
    tokens = model.generate(case(), 32)
    logits = model.logits(case(tokens))["logits"]
    assert logits[-len(tokens) - 1 : -1].argmax(-1).tolist() == tokens
