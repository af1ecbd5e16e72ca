# SPDX-License-Identifier: Apache-2.0
"""Version 1 of a checkpoint is never served with another's prompt: what tells the versions apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from served_weights import identity
from served_weights.catalog import Catalog, Model
from served_weights.identity import Signs
from served_weights.settings import WeightSettings
from served_weights.vlm import find_vlm, named
from tests.support.paths import ROOT
from tests.support.weights import make_weights
from tool_errors import UsageError, WeightsError
from vlm_server.command import build_command
from vlm_server.serving import ModelServing, Serving
from vlm_server.settings import Settings

CATALOG = Catalog.load(ROOT / "config/models.yaml")
VERSIONS = ("PaddleOCR-VL", "PaddleOCR-VL-1.5", "PaddleOCR-VL-1.6")
ARCHITECTURE = "PaddleOCRVLForConditionalGeneration"
# As the published files are: a folder of each version, without the weights themselves.
TEMPLATE = '{{- "User: " -}}\n{{- "Assistant:ANSWER" -}}\n'
PIXELS = {"PaddleOCR-VL": (147384, 2822400)}


def published(folder: Path, version: str, *left_out: str) -> Path:
    """A folder with the signs of a version; ``left_out`` are files that it lacks."""
    least, most = PIXELS.get(version, (112896, 1003520))
    files = {
        "config.json": json.dumps({"architectures": [ARCHITECTURE]}),
        "inference.yml": f"Global:\n  format: safetensors\n  model_name: {version}-0.9B\nOther:\n  model_name: x\n",
        "chat_template.jinja": TEMPLATE.replace("ANSWER", " " if version == "PaddleOCR-VL" else "\\n"),
        "preprocessor_config.json": json.dumps({"min_pixels": least, "max_pixels": most}),
        "tokenizer.json": json.dumps({"added_tokens": [{"id": 7, "content": "<|LOC_0|>"}]}),
    }
    make_weights(folder)
    (folder / "inference.yml").unlink()
    for name, text in files.items():
        if name not in left_out:
            (folder / name).write_text(text)
    return folder


def settings(models: Path, version: str) -> WeightSettings:
    return WeightSettings.from_environment({"MODELS_DIR": str(models), "HARDWARE": "cpu", "VLM_MODEL": version})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("other", VERSIONS)
def test_a_folder_is_served_as_its_own_version_only(tmp_path: Path, version: str, other: str):
    published(tmp_path / version, other)
    asked = settings(tmp_path, version)
    if version == other:
        assert find_vlm(asked).model.name == version
        return
    with pytest.raises(WeightsError, match=f"are not {version}: inference.yml names {other}-0.9B") as caught:
        find_vlm(asked)
    assert "\n" not in str(caught.value) and f"set VLM_MODEL={other}" in str(caught.value)


LESS_SURE = ("inference.yml", "chat_template.jinja", "preprocessor_config.json")


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        (LESS_SURE[:1], "the chat template begins an answer with a newline, not blank"),
        (LESS_SURE[:2], "preprocessor_config.json allows 112896 to 1003520 pixels, not 147384 to 2822400"),
        (LESS_SURE, "no inference.yml, chat_template.jinja or preprocessor_config.json says which version they are"),
    ],
)
def test_each_sign_tells_1_5_from_version_1(tmp_path: Path, left_out: tuple[str, ...], words: str):
    published(tmp_path / "PaddleOCR-VL", "PaddleOCR-VL-1.5", *left_out)
    with pytest.raises(WeightsError, match=words):
        find_vlm(settings(tmp_path, "PaddleOCR-VL"))
    folder = published(tmp_path / "right/PaddleOCR-VL", "PaddleOCR-VL", *left_out[:2])
    assert find_vlm(settings(tmp_path / "right", "PaddleOCR-VL")).path == folder


def test_a_template_inside_of_the_tokenizers_file_counts(tmp_path: Path):
    folder = published(tmp_path / "PaddleOCR-VL-1.5", "PaddleOCR-VL-1.5", *LESS_SURE[:2])
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE.replace("ANSWER", " ")}))
    with pytest.raises(WeightsError, match="begins an answer with a blank, not newline"):
        find_vlm(settings(tmp_path, "PaddleOCR-VL-1.5"))


def test_operators_may_change_the_pixels(tmp_path: Path):
    folder = published(tmp_path / "PaddleOCR-VL", "PaddleOCR-VL")
    (folder / "preprocessor_config.json").write_text(json.dumps({"min_pixels": 112896, "max_pixels": 1003520}))
    assert find_vlm(settings(tmp_path, "PaddleOCR-VL")).path == folder


def test_another_architecture_and_a_tokenizer_without_places(tmp_path: Path):
    folder = published(tmp_path / "PaddleOCR-VL-1.6", "PaddleOCR-VL-1.6")
    (folder / "tokenizer.json").write_text('{"added_tokens": []}')
    with pytest.raises(WeightsError, match=r"tokenizer.json lacks <\|LOC_0\|>"):
        find_vlm(settings(tmp_path, "PaddleOCR-VL-1.6"))
    (folder / "config.json").write_text('{"architectures": ["Qwen2VLForConditionalGeneration"]}')
    with pytest.raises(WeightsError, match="architecture Qwen2VLForConditionalGeneration, not PaddleOCRVLFor"):
        find_vlm(settings(tmp_path, "PaddleOCR-VL-1.6"))
    (folder / "config.json").write_text("[]")
    with pytest.raises(WeightsError, match=r"config\.json is not a JSON object; copy the weights again"):
        find_vlm(settings(tmp_path, "PaddleOCR-VL-1.6"))


def test_a_folder_is_served_as_the_version_that_it_holds(tmp_path: Path):
    published(tmp_path / "mine", "PaddleOCR-VL-1.6")
    assert find_vlm(settings(tmp_path, "mine")).model.name == "PaddleOCR-VL-1.6"
    assert named(settings(tmp_path, "absent"))[0].name == "PaddleOCR-VL"
    assert find_vlm(settings(ROOT / "models", "demo/PaddleOCR-VL")).model.name == "PaddleOCR-VL"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_command_has_the_versions_template_and_names(tmp_path: Path, version: str):
    published(tmp_path / version, version)
    chosen = Settings.from_environment({"MODELS_DIR": str(tmp_path), "HARDWARE": "cpu", "VLM_MODEL": version})
    command = build_command(chosen, Serving.load(ROOT / "config/models.yaml"), find_vlm(chosen.weights), [])
    names = command.index("--served-model-name")
    assert command[names + 1 : names + 4] == [f"{version}-0.9B", version, "--chat-template"]
    template = Path(command[names + 4])
    answer = "blank" if version == "PaddleOCR-VL" else "newline"
    assert identity.BEGINNINGS[template.read_text().partition('answer = "Assistant:')[2].partition('"')[0]] == answer
    assert answer == CATALOG.models[version].signs.answer_begins


@pytest.mark.server
def test_one_line_and_status_2_for_another_version(tmp_path: Path):
    published(tmp_path / "PaddleOCR-VL", "PaddleOCR-VL-1.6")
    env = {**os.environ, "MODELS_DIR": str(tmp_path), "HARDWARE": "cpu", "VLM_MODEL": "PaddleOCR-VL"}
    env["PYTHONPATH"] = f"{ROOT}/common:{ROOT}/model_code"
    done = subprocess.run([sys.executable, "-m", "vlm_server"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: the weights in {tmp_path / 'PaddleOCR-VL'} are not PaddleOCR-VL: ")


def test_a_stack_that_cannot_serve_the_model():
    model = Model("M", "m", "M", stacks=("0.23.0",))
    model.check_stack("0.23.0")
    model.check_stack(None)
    with pytest.raises(UsageError, match=r"M needs stack 0.23.0, but this is 0.11.1; set STACK=0.23.0"):
        model.check_stack("0.11.1")
    with pytest.raises(UsageError, match="family 'paddleocr_vl' has no chat_template 'x.jinja'"):
        _ = ModelServing("paddleocr_vl", "x.jinja").chat_template_file


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"pixels": 3}, "pixels is 3; expected a text"),
        ({"pixels": "3"}, "pixels is '3'; expected a text like"),
        ({"answer_begins": "tab"}, "answer_begins is 'tab'; expected blank or newline"),
    ],
)
def test_signs_that_make_no_sense(entry: dict[str, object], words: str):
    with pytest.raises(UsageError, match=f"models.x.weights.*{words}"):
        Signs.from_entry(entry, "models.x.weights")
