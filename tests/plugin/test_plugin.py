# SPDX-License-Identifier: Apache-2.0
"""The plugin's parts as vLLM and transformers use them, without an engine."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import jinja2
import pytest
from transformers import AutoConfig, AutoImageProcessor
from vllm.transformers_utils.processor import get_processor

import vlm_models
from tests.plugin.checkpoints import name_remote_code
from tests.plugin.templates import rendered
from vlm_models.cpu_worker import CPUWorker
from vlm_models.paddleocr_vl.config import PaddleOCRVLConfig
from vlm_models.paddleocr_vl.image_processing import PaddleOCRVLImageProcessor
from vlm_models.paddleocr_vl.processing import PaddleOCRVLProcessor, image_processor_values

PUBLISHED = {
    "architectures": ["PaddleOCRVLForConditionalGeneration"],
    "auto_map": {"AutoConfig": "configuration_paddleocr_vl.PaddleOCRVLConfig"},
    "model_type": "paddleocr_vl",
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "num_hidden_layers": 18,
    "rope_theta": 500000,
    "rope_scaling": {"mrope_section": [16, 24, 24], "rope_type": "default", "type": "default"},
    "tie_word_embeddings": False,
    "vocab_size": 103424,
    "vision_config": {"model_type": "paddleocr_vl", "hidden_size": 1152, "tokens_per_second": 2},
}


@pytest.fixture(scope="module", autouse=True)
def registered():
    vlm_models.register()
    vlm_models.register()


def test_entry_point():
    entries = importlib.metadata.entry_points(group="vllm.general_plugins")
    assert [entry.value for entry in entries if entry.name == "paddleocr_vl"] == ["vlm_models:register"]


def test_module_names_do_not_meet_vllms():
    """vLLM caches what it knows of a class under the file of its own that has the module's last name."""
    vllm = importlib.util.find_spec("vllm")
    assert vllm and vllm.origin
    models = Path(vllm.origin).parent / "model_executor/models"
    for target in vlm_models.MODELS.values():
        assert not (models / f"{target.split(':')[0].rsplit('.', 1)[-1]}.py").exists()


def test_our_class_goes_before_vllms():
    from vllm import ModelRegistry

    from vlm_models.registry import is_known

    absent = {architecture for architecture in vlm_models.MODELS if not is_known(architecture)}
    assert absent <= {"HunYuanVLForConditionalGeneration"}, "vLLM 0.11.1 has no such model, and the launcher says so"
    for architecture, target in vlm_models.MODELS.items():
        if architecture in absent:
            continue
        entry: Any = ModelRegistry.models[architecture]
        assert f"{entry.module_name}:{entry.class_name}" == target
        described = entry.inspect_model_cls()
        assert described.supports_multimodal and described.is_text_generation_model and described.supports_pp


def test_images_are_taken_from_data_urls_only():
    assert os.environ["VLLM_MEDIA_CONNECTOR"] == "data_url"


@pytest.mark.parametrize("nested", [False, True])
def test_configuration_in_both_spellings(tmp_path, nested):
    document = dict(PUBLISHED)
    if nested:
        keys = (
            "hidden_size",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "num_hidden_layers",
            "vocab_size",
        )
        text = {key: document.pop(key) for key in keys}
        document.pop("rope_scaling"), document.pop("rope_theta")
        text["rope_parameters"] = {"rope_theta": 500000, "rope_type": "default", "mrope_section": [16, 24, 24]}
        document["text_config"] = {**text, "tie_word_embeddings": document["tie_word_embeddings"]}
    (tmp_path / "config.json").write_text(json.dumps(document))
    config = AutoConfig.from_pretrained(tmp_path, trust_remote_code=False)
    assert isinstance(config, PaddleOCRVLConfig)
    language, vision = config.get_text_config(), config.vision_config
    sizes = (language.hidden_size, language.num_hidden_layers, language.rope_theta, language.vocab_size)
    assert sizes == (1024, 18, 500000, 103424)
    assert language.rope_scaling["mrope_section"] == [16, 24, 24]
    assert not language.tie_word_embeddings and not config.tie_word_embeddings
    assert (vision.hidden_size, vision.num_hidden_layers, vision.spatial_merge_size) == (1152, 27, 2)
    assert (config.image_token_id, config.vision_start_token_id) == (100295, 101305)


def test_configuration_that_does_not_fit():
    with pytest.raises(ValueError, match="rope_scaling.mrope_section"):
        PaddleOCRVLConfig(head_dim=64, rope_scaling={"mrope_section": [16, 24, 24]})
    with pytest.raises(ValueError, match="vision_config.hidden_size"):
        PaddleOCRVLConfig(vision_config={"hidden_size": 100})


def test_processors_of_a_checkpoint_that_names_remote_code(demo_weights, tmp_path):
    directory = tmp_path / "PaddleOCR-VL"
    shutil.copytree(demo_weights, directory, ignore=shutil.ignore_patterns("*.safetensors"))
    name_remote_code(directory)
    # As vLLM asks for it. AutoProcessor would take transformers' own class of that name, where it has one (5.0 on).
    processor = get_processor(str(directory), processor_cls=PaddleOCRVLProcessor)
    assert type(processor).__module__ == "vlm_models.paddleocr_vl.processing"
    assert type(processor.image_processor) is PaddleOCRVLImageProcessor
    assert AutoImageProcessor.from_pretrained(directory, trust_remote_code=False) is not None
    assert processor.image_token_id == AutoConfig.from_pretrained(directory).image_token_id


# Version -> how its answers begin.
TEMPLATES = {"chat_template.jinja": "Assistant: ", "chat_template_1.5.jinja": "Assistant:\n"}


def render(messages: list[dict], template: str = "chat_template.jinja", **values) -> str:
    return rendered(f"paddleocr_vl/{template}", messages, **values)


def user(*content) -> dict:
    return {"role": "user", "content": list(content)}


IMAGE = "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"


@pytest.mark.parametrize("template", TEMPLATES)
def test_chat_template_puts_images_first(template: str):
    text, answer = {"type": "text", "text": "OCR:"}, TEMPLATES[template]
    expected = f"<|begin_of_sentence|>User: {IMAGE}OCR:\n{answer}"
    assert render([user({"type": "image"}, text)], template, add_generation_prompt=True) == expected
    assert render([user(text, {"type": "image"})], template, add_generation_prompt=True) == expected
    assert render([{"role": "user", "content": "OCR:"}], template) == f"<|begin_of_sentence|>User: OCR:\n{answer}"


@pytest.mark.parametrize("template", TEMPLATES)
def test_chat_template_of_several_turns(template: str):
    turns = [
        {"role": "system", "content": "Be brief."},
        user({"type": "image"}),
        {"role": "assistant", "content": "yes"},
    ]
    expected = f"<|begin_of_sentence|>Be brief.\nUser: {IMAGE}\n{TEMPLATES[template]}yes</s>"
    assert render(turns, template, add_generation_prompt=False) == expected


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
@pytest.mark.parametrize("token", ["<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"])
def test_chat_template_refuses_image_tokens(role, token, template):
    for content in (f"a {token}", *([{"type": "text", "text": one} for one in ones] for ones in ([token], token))):
        with pytest.raises(jinja2.TemplateError, match="reserved"):
            render([{"role": role, "content": content}], template)


def test_image_processor_values_in_both_files(tmp_path):
    with pytest.raises(OSError, match="preprocessor_config.json"):
        image_processor_values(tmp_path)
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": {"min_pixels": 1}}))
    assert image_processor_values(tmp_path) == {"min_pixels": 1}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"min_pixels": 2, "auto_map": {}}))
    assert image_processor_values(tmp_path) == {"min_pixels": 2}


def test_a_worker_on_a_cpu_runs_no_step_for_the_size_of_the_cache(monkeypatch: pytest.MonkeyPatch):
    """vLLM 0.23.0 would run one of all tokens that fit."""
    asked: list[str] = []

    class Runner:
        def warming_up_model(self) -> None:
            asked.append("step")

    def determine(worker: CPUWorker) -> int:  # as that of 0.23.0
        worker.model_runner.warming_up_model()
        return 5

    monkeypatch.setattr(CPUWorker.__mro__[1], "determine_available_memory", determine)
    worker: Any = CPUWorker.__new__(CPUWorker)
    worker.model_runner = Runner()
    assert worker.determine_available_memory() == 5 and not asked
    worker.model_runner.warming_up_model()
    assert asked == ["step"]


@pytest.mark.parametrize(
    ("layers", "heads", "dtype", "gib"), [(18, 2, "float32", 1), (24, 8, "bfloat16", 2), (24, 8, "float32", 3)]
)
def test_the_cache_of_the_accuracy_tool_holds_a_case_of_each_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: int, heads: int, dtype: str, gib: int
):
    """Of PaddleOCR-VL's and of HunyuanOCR's published shapes. vLLM refuses to start where it does not."""
    monkeypatch.setattr(os, "environ", dict(os.environ))  # the module sets what vLLM reads
    engine: Any = importlib.import_module("plugin_logits.engine")
    monkeypatch.setattr(engine, "LLM", lambda _path, **options: options)
    config = {"num_hidden_layers": layers, "num_key_value_heads": heads, "head_dim": 128}
    (tmp_path / "config.json").write_text(json.dumps(config))
    options = engine.start(tmp_path, dtype)
    assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == str(gib)
    values = options["max_model_len"] * layers * heads * 128 * 2
    assert gib * 2**30 >= values * (4 if dtype == "float32" else 2)
    # Three of HunyuanOCR's largest pages, or eight crops, in one step.
    assert 3 * 4162 < options["max_model_len"] <= options["max_num_batched_tokens"]
