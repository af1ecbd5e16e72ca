# SPDX-License-Identifier: Apache-2.0
"""explain_inputs.py and inference.py for every family: the seed's figures, videos, pictures, wrong arguments."""

from __future__ import annotations

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from reference import inference
from reference.explain import __main__ as explain
from reference.media import read_video
from tests.plugin.clips import clip as numbered_clip
from tests.plugin.clips import head_first, number_of, trimmed
from tests.support.paths import GOLDEN
from tool_errors import UsageError

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds of 25 frames."""
    file = tmp_path_factory.mktemp("clip") / "clip.mp4"
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter.fourcc(*"mp4v"), 25, (300, 200))
    for number in range(50):
        writer.write(np.full((200, 300, 3), 5 * number, np.uint8))
    writer.release()
    return file


def test_the_seeds_image(tool, models, tmp_path, capsys):
    Image.new("RGB", (899, 868), "white").save(tmp_path / "seed.png")
    words = [models["qwen2_vl"], "seed.png", "--prompt", "Describe this image.", "--picture", "out.png"]
    assert tool(explain, *words) == 0
    out = capsys.readouterr().out
    assert "868 x 896: each side to the nearest of the multiples of 28 = 14 x 2" in out
    assert "62 x 64 patches of 14 x 14" in out and "patches       3968" in out and "tokens        992" in out
    line = next(line for line in out.splitlines() if "<|image_pad|> x 992" in line)
    assert line.split()[-3:] == ["45", "45..75", "45..76"], "time stands still, rows and columns count"
    picture = np.asarray(Image.open(tmp_path / "out.png"))
    assert picture.shape[1] > 4 * picture.shape[0] / 2 and len(np.unique(picture.reshape(-1, 3), axis=0)) > 30


def test_hunyuan_has_a_token_more_in_each_row_and_two_around(tool, models, tmp_path, capsys):
    Image.new("RGB", (640, 480), "white").save(tmp_path / "page.png")
    assert tool(explain, models["hunyuan_vl"], "page.png", "--picture", "out.png") == 0
    out = capsys.readouterr().out
    assert f"tokens        {15 * 21 + 2}" in out and "as it is: both sides are multiples of 32 = 16 x 2" in out
    line = next(line for line in out.splitlines() if f"x {15 * 21}" in line)
    assert line.split()[-3:] == ["0..20", "0..14", "0"], "column, row, image"


def test_a_trimmed_mp4_has_the_frames_that_it_shows(tmp_path: Path):
    whole = numbered_clip(tmp_path, 50, 25)
    (file := tmp_path / "trimmed.mp4").write_bytes(trimmed(whole, 13, 25))
    frames, facts = read_video(file, fps=25, max_frames=128)
    assert facts["total"] == 25 and [number_of(one) for one in frames] == [13 + index for index in facts["chosen"]]
    file.write_bytes(trimmed(head_first(whole), 13, 25)[: len(whole) // 2])
    with pytest.raises(UsageError, match="cut off or damaged"):
        read_video(file, fps=25, max_frames=128)


def test_videos_and_images_of_one_prompt(tool, models, clip, capsys):
    words = [models["qwen2_vl"], clip, GOLDEN / "lines.png", "--max_pixels", 200_000]
    assert tool(explain, *words) == 0
    out = capsys.readouterr().out
    assert "200 x 300, 4 frames" in out and "enlarged to at least 100352 pixels" in out
    assert "<|video_pad|> x" in out and "<|image_pad|> x" in out
    assert tool(explain, models["hunyuan_vl"], clip) == 2
    assert "HunyuanOCR reads no video" in capsys.readouterr().err


def test_without_weights_and_with_the_versions_own_prompt(tool, demo, tmp_path, capsys):
    shutil.copytree(demo, tmp_path / "later", ignore=shutil.ignore_patterns("*.safetensors"))
    (tmp_path / "later/chat_template.jinja").write_text(r"""{{- "Assistant:\n" -}}""")
    assert tool(explain, "later", GOLDEN / "lines.png", "--prompt", "OCR:") == 0
    out = capsys.readouterr().out
    assert r'"OCR:\nAssistant:\n"' in out and "<|IMAGE_PLACEHOLDER|> x 150" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([GOLDEN, GOLDEN / "lines.png"], "no config.json"),
        (["MODEL", "absent.png"], "absent.png: no such file"),
        (["MODEL", "absent.mp4"], "absent.mp4: no such file"),
        (["MODEL", "thin.png"], "the processor refuses them"),
        (["MODEL", GOLDEN / "lines.png", "--min_pixels", 9, "--max_pixels", 5], "expected 0 < min <= max"),
        (["MODEL", GOLDEN / "lines.png", "--picture", "absent/out.png"], "--picture absent/out.png: cannot be written"),
        (["MODEL", "clip.mp4", "--frames", 1], "argument --frames: 1: expected at least 2"),
        (["MODEL", "clip.mp4", "--fps", "inf"], "argument --fps: inf: expected a number above 0"),
    ],
)
def test_wrong_arguments_end_with_one_line(tool, models, tmp_path, capsys, words, message):
    Image.new("RGB", (3000, 2)).save(tmp_path / "thin.png")
    assert tool(explain, *(models["qwen2_vl"] if word == "MODEL" else word for word in words)) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert len(errors) == 1 and message in errors[0]


def test_inference_reads_videos_and_images_of_every_family(tool, models, clip, capsys):
    options = ["--device", "cpu", "--max_new_tokens", 2]
    assert tool(inference, "--model_path", models["qwen2_vl"], "--video", clip, "--task", "describe", *options) == 0
    assert "clip.mp4: 2 tokens" in capsys.readouterr().err
    words = ["--image", GOLDEN / "title.png", "--task", "document"]
    assert tool(inference, "--model_path", models["hunyuan_vl"], *words, *options) == 0
    assert "title.png: 2 tokens" in capsys.readouterr().err
    assert tool(inference, "--model_path", models["hunyuan_vl"], "--video", clip, *options) == 2
    assert "HunyuanOCR reads no video; Qwen2-VL does" in capsys.readouterr().err
    words = ["--image", GOLDEN / "title.png", "--task", "seal"]
    assert tool(inference, "--model_path", models["qwen2_vl"], *words, *options) == 2
    assert "--task seal: this model knows describe, document, ocr" in capsys.readouterr().err
