# SPDX-License-Identifier: Apache-2.0
"""The parts of the model benchmark: the in-tree model's inputs, folders of published shapes, timed stages."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoTokenizer

from model_bench import checkpoint, in_tree, language, stages
from tests.support.processes import child_environment
from vlm_models.paddleocr_vl.config import PaddleOCRVLConfig


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shapes") / "PaddleOCR-VL"
    checkpoint.write(path, text_layers=18, vision_layers=27, weights=False)
    return path


def test_the_folder_has_the_published_shapes(folder):
    config = PaddleOCRVLConfig(**json.loads((folder / "config.json").read_text()))
    published = PaddleOCRVLConfig()
    for ours, theirs in ((config.text_config, published.text_config), (config.vision_config, published.vision_config)):
        for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"):
            assert getattr(ours, name) == getattr(theirs, name), name
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == config.text_config.vocab_size
    assert (
        tokenizer.decode([103_000])
        and tokenizer.convert_tokens_to_ids("<|IMAGE_PLACEHOLDER|>") == config.image_token_id
    )


def test_the_in_tree_model_finds_the_language_models_keys(folder):
    flat = in_tree.FlatConfig(**json.loads((folder / "config.json").read_text()))
    assert (flat.hidden_size, flat.num_hidden_layers, flat.vocab_size) == (1024, 18, 103424)
    assert flat.rope_scaling["mrope_section"] == [16, 24, 24]


def test_the_in_tree_model_gets_patches_row_by_row(folder):
    processor = in_tree.PaddleOCRVLProcessor.from_pretrained(folder, min_pixels=784, max_pixels=10**6)
    pixels = np.random.default_rng(0).integers(0, 256, (112, 84, 3), dtype=np.uint8)
    images = [Image.fromarray(pixels), Image.fromarray(pixels[:56])]
    made = processor(images, "<|IMAGE_PLACEHOLDER|>a<|IMAGE_PLACEHOLDER|>", return_tensors="pt", min_pixels=784)
    assert made["image_grid_thw"].tolist() == [[1, 8, 6], [1, 4, 6]] and made["pixel_values"].shape == (72, 3, 14, 14)
    assert (made["input_ids"] == processor.image_token_id).sum() == 72 // 4
    patch = torch.from_numpy(pixels[14:28, 28:42]).permute(2, 0, 1) / 255
    for place in (6 + 2, 48 + 6 + 2):
        torch.testing.assert_close(made["pixel_values"][place], (patch - 0.5) / 0.5, atol=1e-6, rtol=0)


def test_the_plugin_and_the_in_tree_model_exclude_each_other(monkeypatch):
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    with pytest.raises(RuntimeError, match="VLLM_PLUGINS must be set and empty"):
        in_tree.register()


@pytest.mark.parametrize("implementation", ["ours", "in_tree"])
def test_servers_have_the_launchers_settings(folder, tmp_path, implementation):
    """Its command line is that of the launcher; the plugin is off for the in-tree model only."""
    shown = (
        "import json, os, sys, model_bench.serve as s\n"
        "os.execve = lambda program, command, env: print(json.dumps([command[3:], env.get('VLLM_PLUGINS')]))\n"
        "s.replaced(sys.argv[1:])"
    )
    env = child_environment("VLLM_PLUGINS", HARDWARE="cpu", MODELS_DIR=str(folder.parent), VLM_PORT="8011")
    words = ["--implementation", implementation, "--stages", str(tmp_path / "stages"), "--", "--load-format", "dummy"]
    program = [sys.executable, "-c", shown, *words]
    said = subprocess.run(program, env=env, capture_output=True, text=True, check=True).stdout
    arguments, plugins = json.loads(said)
    launcher = [sys.executable, "-m", "vlm_server", "--print-command", "--", "--load-format", "dummy"]
    command = subprocess.run(launcher, env=env, capture_output=True, text=True, check=True).stdout
    assert arguments == shlex.split(command)[1:] and plugins == ("" if implementation == "in_tree" else None)


def test_prompts_are_as_long_as_a_crops():
    made = language.prompts()
    assert {len(prompt) for prompt in made} == {41776 // 4 // 30 + language.INSTRUCTION} and made == language.prompts()


class Runner:
    def step(self, scheduled: list[int]) -> None:
        time.sleep(0.01)


def test_stages_are_summed_over_processes(tmp_path):
    counted = stages.Stages(tmp_path)
    seen = []

    class Watched(Runner):
        pass

    def add(seconds: float, words: tuple[Any, ...]) -> None:
        seen.append(words[1])
        counted.add("decode", seconds)

    stages.timed(Watched, "step", add)
    Watched().step([1])
    Watched().step([5])
    (tmp_path / "1.json").write_text(json.dumps({"preprocess": 1.0, "encode": 2.0, "prefill": 0.0, "decode": 0.5}))
    found = stages.totals(tmp_path)
    assert seen == [[1], [5]] and found["encode"] == 2.0 and 0.52 <= found["decode"] < 1.5
