# SPDX-License-Identifier: Apache-2.0
"""Requests for another version, or for a task that the loaded one does not know, without a service."""

from __future__ import annotations

from typing import Any

import pytest

from docparser.contract.schemas import ParseOptions
from docparser.contract.tasks import Tasks
from docparser.errors import InvalidJob
from docparser.models.served_model import SDK_NAMES, ServedModel
from docparser.settings import Settings


def served(version: str, **settings: Any) -> ServedModel:
    return ServedModel.of(Settings(vlm_model=version, **settings))


@pytest.mark.parametrize("version", SDK_NAMES)
@pytest.mark.parametrize("asked", SDK_NAMES)
def test_another_version_is_noted_or_refused(version: str, asked: str):
    plain, strict = served(version), served(version, strict_model=True)
    plain.check(asked)
    if version == asked:
        strict.check(asked)
        assert plain.note(asked) is None
        return
    assert plain.note(asked) == f"{asked} was asked for, but {version}-0.9B is served here and reads the pages."
    with pytest.raises(InvalidJob, match=f"'{asked}' is not served here, and PARSER_STRICT_MODEL.*{version}-0.9B or"):
        strict.check(asked)


def test_names_that_are_never_refused_and_one_that_is():
    for model in (served("PaddleOCR-VL", strict_model=True), served("PaddleOCR-VL", vlm_model_name="mine")):
        for name in (model.name, model.served_name):
            model.check(name)
            assert model.note(name) is None
        with pytest.raises(InvalidJob, match="'PP-OCRv5' is not served here; expected one of "):
            model.check("PP-OCRv5")


def test_the_setting_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PARSER_STRICT_MODEL", "1")
    assert ServedModel.of(Settings()).strict


def test_tasks_that_a_version_does_not_know():
    old, new = (Tasks(version, served(version).tasks) for version in ("PaddleOCR-VL", "PaddleOCR-VL-1.6"))
    for task in ("seal", "spotting"):
        words = f"promptLabel: '{task}' is no task of PaddleOCR-VL, which is served here and knows ocr, table, formula"
        options = ParseOptions.model_validate({"promptLabel": task, "useLayoutDetection": False})
        assert words in str(old.refusal(options)) and new.refusal(options) is None
    assert old.refusal(ParseOptions.model_validate({"promptLabel": "chart"})) is None
    assert Tasks("x", None).refusal(ParseOptions.model_validate({"promptLabel": "seal"})) is None


def test_switches_that_have_no_effect_are_noted():
    """Clients set them for every document, so they are no reason to refuse one."""
    options = ParseOptions.model_validate({"useSealRecognition": True, "useChartRecognition": True})
    used, (note,) = Tasks("PaddleOCR-VL", served("PaddleOCR-VL").tasks).without_unknown(options)
    assert (used.useSealRecognition, used.useChartRecognition) == (False, True) and "useSealRecognition" in note
    assert Tasks("x", served("PaddleOCR-VL-1.6").tasks).without_unknown(options) == (options, [])
