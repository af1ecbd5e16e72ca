# SPDX-License-Identifier: Apache-2.0
"""The versions of PaddleOCR-VL as the installed PaddleX has them: templates, prompts, pixel bounds, pipelines."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
import yaml
from paddlex.inference.pipelines.paddleocr_vl.pipeline import _PaddleOCRVLPipeline

from docparser.contract.schemas import LABELS
from docparser.errors import NotReady
from docparser.page.layout_model import CONFIGURED
from docparser.settings import Settings
from docparser.weights import load_pipeline, pipeline_file, served_model
from reference.prompts import TASKS
from tests.support.paths import ROOT

CONFIG = yaml.safe_load((ROOT / "config/models.yaml").read_text())
PADDLEX = importlib.resources.files("paddlex")
VERSIONS = ("PaddleOCR-VL", "PaddleOCR-VL-1.5", "PaddleOCR-VL-1.6")


def of(version: str, **settings: Any) -> Settings:
    return Settings(vlm_model=version, **settings)


IMAGE, TEXT, MORE = {"type": "image"}, {"type": "text", "text": "OCR:"}, {"type": "text", "text": " 重 <b>\n"}
CONVERSATIONS = {
    "a block": [{"role": "user", "content": [IMAGE, TEXT]}],
    "text before the image": [{"role": "user", "content": [TEXT, IMAGE]}],
    "several images and texts": [{"role": "user", "content": [IMAGE, TEXT, IMAGE, MORE]}],
    "an image alone": [{"role": "user", "content": [IMAGE]}],
    "several turns": [
        {"role": "system", "content": [MORE]},
        {"role": "user", "content": [IMAGE, TEXT]},
        {"role": "assistant", "content": [TEXT, MORE]},
        {"role": "user", "content": [MORE]},
    ],
    "nothing": [],
}


def render(text: str, messages: list[dict], **values: Any) -> str:
    """As vLLM renders a template: with transformers' settings."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text).render(messages=messages, **values)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("values", [{}, {"add_generation_prompt": True}, {"add_generation_prompt": False}])
def test_a_templates_output_is_paddlexs_byte_by_byte(version: str, conversation: str, values: dict[str, bool]):
    entry, messages = CONFIG["models"][version], CONVERSATIONS[conversation]
    ours = ROOT / "model_code/vlm_models" / entry["family"] / entry["chat_template"]
    theirs = PADDLEX / f"inference/genai/chat_templates/{entry['served_name']}.jinja"
    expected = render(theirs.read_text(encoding="utf-8"), messages, **values)
    assert render(ours.read_text(encoding="utf-8"), messages, **values) == expected
    # The tokenizer's own tokens are passed as well, as the published tokenizers have them.
    more: dict[str, Any] = {**values, "cls_token": "<|begin_of_sentence|>", "eos_token": "</s>"}
    assert render(ours.read_text(encoding="utf-8"), messages, **more) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_answers_as_its_weights_are_told_apart(version: str):
    """The sign that weights are looked at for is what PaddleX's template of the version has."""
    expected = {"blank": "Assistant: ", "newline": "Assistant:\n"}[
        CONFIG["models"][version]["weights"]["answer_begins"]
    ]
    theirs = PADDLEX / f"inference/genai/chat_templates/{version}-0.9B.jinja"
    assert render(theirs.read_text(encoding="utf-8"), []) == f"<|begin_of_sentence|>{expected}"


# What the service says itself, and what its own loop does not ask for.
OWN = {"use_doc_preprocessor", "SubPipelines", "Serving", "use_ocr_for_image_block"}
UNREAD = {"pipeline_name", "batch_size", "use_queues"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_pipeline_is_paddlexs(version: str):
    settings = of(version)
    ours = load_pipeline(pipeline_file(settings))
    theirs = yaml.safe_load((PADDLEX / f"configs/pipelines/{version}.yaml").read_text(encoding="utf-8"))
    theirs.setdefault("use_seal_recognition", False)  # version 1's file leaves it out
    modules, published = ours.pop("SubModules"), theirs.pop("SubModules")["LayoutDetection"]
    assert {key: ours[key] for key in ours.keys() - OWN} == {key: theirs[key] for key in theirs.keys() - OWN - UNREAD}
    assert modules == {"LayoutDetection": {key: published[key] for key in CONFIGURED}}
    assert published["model_name"] == served_model(settings).layout
    assert ours["use_ocr_for_image_block"] is False, "PaddleX's default where its file says nothing"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_layout_classes_of_a_version(version: str):
    config = load_pipeline(pipeline_file(of(version)))
    layout = config["SubModules"]["LayoutDetection"]
    everything = set(range(len(LABELS)))
    assert set(layout["layout_merge_bboxes_mode"]) == everything
    assert layout["threshold"] == 0.3 or set(layout["threshold"]) == everything
    assert set(config["markdown_ignore_labels"]) <= set(LABELS)


LABEL_OF = {"ocr": "text", "formula": "display_formula"}  # of a block whose task has another name


def test_prompts_and_pixels_of_each_task_are_paddlexs():
    """Its pipeline makes the requests of the parser; the reference tools have a table of their own."""
    pixels = {f"{task}_{end}_pixels": size for task in TASKS for end, size in (("min", 112896), ("max", 1003520))}
    config = {"image_labels": [], "use_chart_recognition": True, "use_seal_recognition": True, **pixels}
    blocks = [
        {"img": np.full((40, 60, 3), 255, np.uint8), "label": LABEL_OF.get(task, task), "box": [0, 0, 60, 40]}
        for task in TASKS
    ]
    entries, spotting, _ = _PaddleOCRVLPipeline._paddleocr_vl_collect_page_vlm_entries_core(None, 0, blocks, [], config)
    assert spotting and [entry[3] for entry in entries] == list(TASKS.values())
    sizes = {task: entry[4] for task, entry in zip(TASKS, entries, strict=True)}
    assert sizes.pop("spotting") == (112896, 1605632) and set(sizes.values()) == {(112896, 1003520)}
    drawn = {task: entry[2].shape[:2] for task, entry in zip(TASKS, entries, strict=True)}
    assert drawn["spotting"] == (80, 120) and drawn["seal"] == (40, 60), "a small page to spot on is enlarged twice"
    bound = CONFIG["models"]["PaddleOCR-VL-1.6"]["arguments"]["mm-processor-kwargs"]["max_pixels_bound"]
    assert bound >= 1605632


def test_every_versions_tasks_are_known():
    assert {version: served_model(of(version)).tasks for version in VERSIONS} == {
        "PaddleOCR-VL": ("ocr", "table", "formula", "chart"),
        "PaddleOCR-VL-1.5": ("ocr", "table", "formula", "chart", "seal", "spotting"),
        "PaddleOCR-VL-1.6": ("ocr", "table", "formula", "chart", "seal", "spotting"),
    }


def test_one_setting_names_the_model(tmp_path: Path):
    assert Settings().vlm_model_name == "PaddleOCR-VL-0.9B"
    assert of("PaddleOCR-VL-1.6").vlm_model_name == "PaddleOCR-VL-1.6-0.9B"
    assert served_model(Settings(vlm_model_name="mine")).name == "PaddleOCR-VL", "its server may call it otherwise"
    with pytest.raises(
        NotReady, match="serves for PaddleOCR-VL-1.6, but VLM_MODEL leads to PaddleOCR-VL; set VLM_MODEL"
    ):
        served_model(Settings(vlm_model_name="PaddleOCR-VL-1.6-0.9B"))
    broken = tmp_path / "models.yaml"
    broken.write_text("models: [")
    assert Settings(models_config=broken).vlm_model_name == "PaddleOCR-VL-0.9B"
    with pytest.raises(NotReady, match="is not YAML"):
        served_model(Settings(models_config=broken))
    broken.write_text("{default: a, models: {a: {path: A, served_name: a}}}")
    with pytest.raises(NotReady, match=r"models\.a names no pipeline; set PARSER_PIPELINE_CONFIG"):
        pipeline_file(Settings(models_config=broken))
    assert pipeline_file(Settings(models_config=broken, pipeline_config=tmp_path)) == tmp_path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("- a", "is no pipeline"),
        ("SubModules: {}", "is no pipeline"),
        ("SubModules: {LayoutDetection: }", "is no pipeline"),
    ],
)
def test_a_pipelines_file_that_is_none(tmp_path: Path, text: str | None, words: str):
    file = tmp_path / "pipeline.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(NotReady, match=f"^PARSER_PIPELINE_CONFIG: {file} {words}"):
        load_pipeline(file)
