# SPDX-License-Identifier: Apache-2.0
"""Weights and stacks of Qwen2-VL and HunyuanOCR: which is which, what can serve them, what the parser says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bundle.preflight.machine import Machine
from bundle.preflight.weights import check_weights
from served_weights.catalog import Catalog
from served_weights.layout import find_layout, has_one
from served_weights.placing import check_whole
from served_weights.settings import WeightSettings
from served_weights.vlm import find_vlm
from tests.support.paths import ROOT
from tests.support.weights import make_weights
from tool_errors import UsageError, WeightsError
from vlm_server.command import build_command
from vlm_server.serving import Serving
from vlm_server.settings import Settings

CONFIG = ROOT / "config/models.yaml"
CATALOG = Catalog.load(CONFIG)
SIGNS: dict[str, dict[str, object]] = {
    "Qwen2-VL-2B-Instruct": {"architectures": ["Qwen2VLForConditionalGeneration"], "hidden_size": 1536},
    "Qwen2-VL-7B-Instruct": {"architectures": ["Qwen2VLForConditionalGeneration"], "hidden_size": 3584},
    "HunyuanOCR": {"architectures": ["HunYuanVLForConditionalGeneration"]},
}


def weights(folder: Path, name: str, **changes: object) -> Path:
    make_weights(folder)
    for file in folder.glob("*.yml"):
        file.unlink()
    (folder / "config.json").write_text(json.dumps({**SIGNS[name], **changes}))
    return folder


def settings(models: Path, name: str) -> WeightSettings:
    return WeightSettings.from_environment({"MODELS_DIR": str(models), "HARDWARE": "cpu", "VLM_MODEL": name})


@pytest.mark.parametrize("name", SIGNS)
def test_weights_are_served_as_their_own_entry_alone(tmp_path: Path, name: str):
    weights(tmp_path / name, name)
    assert find_vlm(settings(tmp_path, name)).model.name == name
    weights(tmp_path / "mine", name)
    assert find_vlm(settings(tmp_path, "mine")).model.name == name, "a folder is served as what it holds"
    for other in SIGNS.keys() - {name}:
        weights(tmp_path / other, name)
        with pytest.raises(WeightsError, match=f"are not {other}: config.json .*; set VLM_MODEL={name}"):
            find_vlm(settings(tmp_path, other))


def test_the_width_may_lie_in_a_section_of_its_own(tmp_path: Path):
    name = "Qwen2-VL-7B-Instruct"
    weights(tmp_path / name, name, hidden_size=None, text_config={"hidden_size": 1536})
    with pytest.raises(WeightsError, match="has the hidden_size 1536, not 3584; set VLM_MODEL=Qwen2-VL-2B-Instruct"):
        find_vlm(settings(tmp_path, name))
    weights(tmp_path / "silent" / name, name, hidden_size=None)
    with pytest.raises(WeightsError, match="config.json says no hidden_size"):
        find_vlm(settings(tmp_path / "silent", name))


@pytest.mark.parametrize(
    ("name", "hardware", "stack", "words"),
    [
        ("Qwen2-VL-2B-Instruct", "cpu", "0.11.1", None),
        ("Qwen2-VL-2B-Instruct", "ascend", "0.23.0", None),
        (
            "Qwen2-VL-2B-Instruct",
            "ascend",
            "0.11.1",
            "needs stack 0.23.0 on Ascend, but this is 0.11.1; set STACK=0.23.0",
        ),
        ("HunyuanOCR", "cpu", "0.23.0", None),
        (
            "HunyuanOCR",
            "cpu",
            "0.11.1",
            "HunyuanOCR needs stack 0.23.0, but this is 0.11.1; set STACK=0.23.0",
        ),
    ],
)
def test_a_stack_that_cannot_serve_it_is_told_which_can(name: str, hardware: str, stack: str, words: str | None):
    model = Catalog.load(CONFIG).models[name]
    if words is None:
        model.check_stack(stack, hardware)
        return
    with pytest.raises(UsageError, match=words):
        model.check_stack(stack, hardware)


@pytest.mark.parametrize("name", SIGNS)
def test_the_command_is_the_entrys(tmp_path: Path, name: str):
    weights(tmp_path / name, name)
    chosen = Settings.from_environment({"MODELS_DIR": str(tmp_path), "HARDWARE": "cpu", "VLM_MODEL": name})
    command = build_command(chosen, Serving.load(CONFIG), find_vlm(chosen.weights), [])
    template = Path(command[command.index("--chat-template") + 1])
    assert template.is_file() and template.parent.name == ("hunyuan_vl" if name == "HunyuanOCR" else "qwen2_vl")
    assert command[command.index("--served-model-name") + 1] == name
    assert {"--no-enable-prefix-caching", "--mm-processor-cache-gb"} <= set(command)
    assert '"temperature"' in command[command.index("--override-generation-config") + 1]


@pytest.mark.parametrize("name", SIGNS)
def test_no_layout_model_is_asked_for(tmp_path: Path, name: str):
    """By nobody: the parser reads whole pages with these, fetch_weights brings none, preflight looks for none."""
    weights(tmp_path / name, name)
    assert not has_one(CATALOG.models[name])
    with pytest.raises(WeightsError, match=f"{name} reads whole pages and has no layout model"):
        find_layout(settings(tmp_path, name))
    check_whole(tmp_path / name, CATALOG.models[name], CATALOG)
    machine = Machine({"MODELS_DIR": str(tmp_path), "VLM_MODEL": name, "HARDWARE": "cpu"})
    assert {finding.check: finding.level for finding in check_weights(machine)}.get("weights") == "PASS"
    assert "layout model" not in {finding.check for finding in check_weights(machine)}


def test_a_model_that_reads_whole_pages_has_a_file_for_the_parser():
    for model in CATALOG.models.values():
        assert model.pipeline and (CONFIG.parent / model.pipeline).is_file()
        reads = yaml.safe_load((CONFIG.parent / model.pipeline).read_text(encoding="utf-8")).get("reads")
        assert (reads == "whole pages") != has_one(model)
