# SPDX-License-Identifier: Apache-2.0
"""Requests for another version, or for a task that the loaded one does not know, without a service."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from docparser import server
from docparser.contract.schemas import ParseOptions
from docparser.contract.service_answers import States
from docparser.contract.tasks import Tasks
from docparser.errors import InvalidJob, NotReady
from docparser.models.readiness import Readiness
from docparser.models.served_model import SDK_NAMES, ServedModel
from docparser.parsing.pool import WorkerPool
from docparser.settings import Settings
from docparser.weights import find_layout_model, names_served, settled
from docparser.weights import served_model as model_of
from served_weights import layout
from tests.support.paths import ROOT
from tests.support.simulated_vlm import SimulatedVlm
from tests.support.weights import make_weights


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
    with pytest.raises(
        InvalidJob, match=f"'{asked}' is not served here. PARSER_STRICT_MODEL allows only .*{version}-0.9B or"
    ):
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


def put(models: Path, version: str, layout_model: str) -> None:
    """Published weights, in form: a VLM with its layout model inside."""
    inside = make_weights(models / version, f"{version}-0.9B") / layout_model
    inside.mkdir()
    for name in layout.FILES:
        (inside / name).write_text(name)


def test_weights_that_arrive_while_it_runs_change_nothing(tmp_path: Path):
    """VLM_MODEL is unset, so they are the newest: a worker that started anew ended with a contradiction."""
    put(tmp_path, "PaddleOCR-VL", "PP-DocLayoutV2")
    begun = Settings(models_dir=tmp_path)
    kept = settled(begun)
    put(tmp_path, "PaddleOCR-VL-1.6", "PP-DocLayoutV3")
    with pytest.raises(NotReady, match="VLM_MODEL leads to PaddleOCR-VL-1.6"):
        model_of(begun)
    assert model_of(kept).name == "PaddleOCR-VL" and kept.vlm_model_name == "PaddleOCR-VL-0.9B"
    assert find_layout_model(kept).path == str(tmp_path / "PaddleOCR-VL/PP-DocLayoutV2")
    assert settled(kept) is kept


@pytest.mark.server
def test_where_none_is_named_the_model_that_is_served_goes_before_the_newest(tmp_path: Path):
    """The VLM started before 1.6 was fetched, the parser after it: it asked for 1.6, and answered 503."""
    put(tmp_path, "PaddleOCR-VL", "PP-DocLayoutV2")
    put(tmp_path, "PaddleOCR-VL-1.6", "PP-DocLayoutV3")
    with closing(SimulatedVlm()) as vlm:
        vlm.model = "PaddleOCR-VL-0.9B"
        begun = Settings(models_dir=tmp_path, vlm_url=vlm.url)
        found = settled(begun, names_served(begun))
    assert model_of(found).name == "PaddleOCR-VL" and found.vlm_model_name == "PaddleOCR-VL-0.9B"
    assert find_layout_model(found).path == str(tmp_path / "PaddleOCR-VL/PP-DocLayoutV2")
    # Away by now, or another model: the newest.
    for names in (names_served(begun), ["mine"]):
        assert (newest := settled(begun, names)).vlm_model == "PaddleOCR-VL-1.6"
        assert newest.vlm_model_name == "PaddleOCR-VL-1.6-0.9B"
    named = Settings(models_dir=tmp_path, vlm_model="PaddleOCR-VL-1.6")
    assert settled(named, ["PaddleOCR-VL-0.9B"]) is named


@pytest.mark.server
@pytest.mark.parametrize(
    ("named", "serves", "status"),
    [("", "PaddleOCR-VL-1.6-0.9B", 1), ("", "mine", 0), ("PaddleOCR-VL", "PaddleOCR-VL-1.6-0.9B", 0)],
)
def test_the_service_starts_anew_for_the_model_that_the_vlm_serves_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, serves: str, status: int
):
    """1.6 was fetched, and the VLM's container alone was made anew: 503 until somebody restarted the parser."""
    put(tmp_path, "PaddleOCR-VL", "PP-DocLayoutV2")
    apps: list[SimpleNamespace] = []

    def create_app(settings: Settings) -> SimpleNamespace:
        pool = WorkerPool(settings)
        apps.append(SimpleNamespace(state=SimpleNamespace(pool=pool, readiness=Readiness(settings, pool, model))))
        return apps[-1]

    def run(self: uvicorn.Server) -> None:
        put(tmp_path, "PaddleOCR-VL-1.6", "PP-DocLayoutV3")
        vlm.model = serves
        _, problems = asyncio.run(checked(apps[-1].state.readiness))
        assert any(f"serves {serves}, not PaddleOCR-VL-0.9B" in one for one in problems)
        assert self.should_exit is bool(status)

    async def checked(readiness: Readiness) -> tuple[States, list[str]]:
        try:
            return await readiness.check()
        finally:
            await readiness.close()

    model = served("PaddleOCR-VL")
    for name in ("hide", "configure_logging", "_raise_descriptors"):
        monkeypatch.setattr(server, name, lambda *_: None)
    monkeypatch.setattr(server.os, "umask", lambda _: 0)
    monkeypatch.setattr(server, "create_app", create_app)
    monkeypatch.setattr(uvicorn.Server, "run", run)
    with closing(SimulatedVlm()) as vlm:
        vlm.model = "PaddleOCR-VL-0.9B"
        for name, value in {"MODELS_DIR": str(tmp_path), "VLM_URL": vlm.url, "VLM_MODEL": named}.items():
            monkeypatch.setenv(name, value)
        assert server.main() == status


def test_no_name_is_settled_on_where_a_demo_model_serves(tmp_path: Path):
    assert settled(demo := Settings(models_dir=ROOT / "models/demo/..")) is demo
    make_weights(tmp_path / "PaddleOCR-VL")
    with pytest.raises(NotReady, match="PP-DocLayoutV2 was not found"):
        settled(Settings(models_dir=tmp_path))


def test_the_service_settles_before_its_workers_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put(tmp_path, "PaddleOCR-VL", "PP-DocLayoutV2")
    begun: list[Settings] = []

    def create_app(settings: Settings) -> None:
        begun.append(settings)
        raise NotReady("no further")

    # Both would hold for this whole process.
    monkeypatch.setattr(server, "hide", lambda: None)
    monkeypatch.setattr(server.os, "umask", lambda _: 0)
    monkeypatch.setattr(server, "create_app", create_app)
    monkeypatch.setenv("MODELS_DIR", str(tmp_path))
    monkeypatch.delenv("VLM_MODEL", raising=False)
    assert server.main() == 2 and [settings.vlm_model for settings in begun] == ["PaddleOCR-VL"]


@pytest.mark.parametrize(
    ("line", "there"), [("use_doc_preprocessor: True", True), ("use_doc_preprocessor: False", False), ("", True)]
)
def test_the_pipelines_file_says_whether_pages_can_be_turned(tmp_path: Path, line: str, there: bool):
    """A request for it is refused before its document is opened, and a job when it is submitted."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"SubModules: {{LayoutDetection: {{}}}}\n{line}\n")
    refusal = ServedModel.of(Settings(pipeline_config=file)).accepted().refusal(ParseOptions(useDocUnwarping=True))
    assert (refusal is None) is there
