# SPDX-License-Identifier: Apache-2.0
"""The layout model's graph: made once, kept, made again when it is damaged; and Paddle where there is none."""

from __future__ import annotations

import importlib.util
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docparser import server
from docparser.errors import NotReady
from docparser.layout.conversion import draw_page, run_in_paddle
from docparser.layout.graph import GRAPH, REFUSAL, REFUSAL_HOLDS_S, SUMS, WEIGHTS, Engine, GraphCache, NoGraph, key_of
from docparser.settings import Settings
from docparser.worker import offline
from tests.support import samples
from tests.support.simulated_layout import BOXES
from tests.support.wait import wait_for


@pytest.fixture(scope="module")
def cache_dir(layout_model, tmp_path_factory) -> Path:
    """A parser's cache, which holds the graph of the simulated layout model, converted as a worker does it."""
    folder = tmp_path_factory.mktemp("cache")
    GraphCache(folder / "layout").find(layout_model)
    return folder


class Conversions(GraphCache):
    """A cache whose conversions are simulated: ``outcome`` is the reason of their failure, or nothing."""

    def __init__(self, folder: Path, outcome: str = "") -> None:
        super().__init__(folder)
        self.outcome = outcome
        self.count = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def _convert(self, model_dir: Path, out: Path) -> str:
        self.count += 1
        (out / GRAPH).write_text("graph")
        assert self.may_go_on.wait(60)
        (out / WEIGHTS).write_bytes(b"weights")
        return self.outcome


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("inference.json", "inference.pdiparams"):
        (folder / name).write_text(name)
    return folder


def test_a_graph_gives_what_paddle_gives(cache_dir, layout_model):
    found = Engine(GraphCache(cache_dir / "layout").find(layout_model))
    page = draw_page()
    results, _ = run_in_paddle(layout_model / "inference.json", layout_model / "inference.pdiparams", page)
    ours = found([page[name] for name in sorted(page)])
    assert len(ours) == len(results) and len(ours[0]) > 5
    assert all(np.allclose(*pair, rtol=1e-5) for pair in zip(ours, results, strict=True))
    # PaddleX gives several pages at once.
    twice = found([np.concatenate([page[name]] * 2) for name in sorted(page)])
    assert all(np.array_equal(two, np.concatenate([one] * 2)) for two, one in zip(twice, ours, strict=True))


def test_the_service_runs_the_model_on_openvino(cache_dir, start_service, vlm):
    service = start_service(VLM_URL=vlm.url, LAYOUT_ENGINE="openvino", PARSER_CACHE_DIR=str(cache_dir)).wait()
    state = service.client.get("/health/ready").json()["result"]["layout"]
    assert state["engines"] == {"openvino": 1}
    values = service.metrics()
    assert values['docparser_layout_workers{engine="openvino"}'] == 1
    assert values['docparser_layout_workers{engine="paddle"}'] == 0
    assert len(service.page(samples.image())["prunedResult"]["parsing_res_list"]) == len(BOXES)


def test_a_model_is_converted_once_for_all_that_start_at_the_same_time(tmp_path, model):
    cache = Conversions(tmp_path / "cache")
    cache.may_go_on.clear()
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(cache.find(model))) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: cache.count >= 1)
    assert not list((tmp_path / "cache").glob(f"*/{GRAPH}")), "half a graph has its name already"
    cache.may_go_on.set()
    for thread in threads:
        thread.join()
    assert cache.count == 1 and len(found) == 4 and len(set(found)) == 1
    assert found[0].read_text() == "graph"
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"lock", found[0].parent.name}


@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "sums"])
def test_a_damaged_graph_is_made_again(tmp_path, model, damage, caplog):
    cache = Conversions(tmp_path / "cache")
    folder = cache.find(model).parent
    if damage == "changed":
        (folder / WEIGHTS).write_bytes(b"weighTs")
    elif damage == "cut":
        (folder / WEIGHTS).write_bytes(b"weigh")
    elif damage == "missing":
        (folder / GRAPH).unlink()
    else:
        (folder / SUMS).write_text("nonsense\n")
    assert cache.find(model).parent == folder and cache.count == 2
    assert "is damaged" in caplog.text
    assert cache.find(model).exists() and cache.count == 2, "now it is whole"


def test_another_model_has_a_graph_of_its_own(tmp_path, model):
    cache = Conversions(tmp_path / "cache")
    first = cache.find(model)
    (model / "inference.pdiparams").write_text("trained for longer")
    assert cache.find(model) != first and cache.count == 2
    assert first.exists(), "another parser may use it"
    month = time.time() - 31 * 24 * 3600
    os.utime(first.parent, (month, month))
    (model / "inference.pdiparams").write_text("and longer")
    cache.find(model)
    assert not first.exists(), "nobody has used it for a month"


def test_a_model_that_cannot_be_converted_is_not_tried_at_every_start(tmp_path, model):
    cache = Conversions(tmp_path / "cache", "operation fold_in_three is not known")
    for _ in range(2):
        with pytest.raises(NoGraph, match="operation fold_in_three is not known; remove .* to try again"):
            cache.find(model)
    assert cache.count == 1
    refusal = tmp_path / "cache" / key_of(model) / REFUSAL
    day = time.time() - REFUSAL_HOLDS_S - 1
    os.utime(refusal, (day, day))
    cache.outcome = ""
    assert cache.find(model).exists()


def test_the_process_that_converts_says_why_it_cannot(tmp_path, model):
    with pytest.raises(NoGraph, match=r"inference.json is not a PIR program of one block"):
        GraphCache(tmp_path / "cache").find(model)


def test_a_conversion_that_ends_or_hangs_is_a_refusal(tmp_path, model, monkeypatch):
    ends = ("kill -9 $$", 60.0, "ended with status -9")
    hangs = ("exec sleep 60", 1.0, "took more than 1 s")
    for script, timeout_s, words in (ends, hangs):
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(program))
        with pytest.raises(NoGraph, match=words):
            GraphCache(tmp_path / words, timeout_s).find(model)


def engine(**settings: Any) -> Any:
    """The runner that a worker with these settings uses."""
    values = Settings(**settings)
    offline.prepare(values.cache_dir)
    from docparser.page.layout_model import openvino_engine

    return lambda model_dir: openvino_engine(values, model_dir)


@pytest.mark.model  # it loads PaddleX
def test_paddle_takes_over_and_the_log_says_why(tmp_path, model, caplog):
    assert engine(cache_dir=tmp_path / "cache")(model) is None
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith(f"Paddle runs the layout model in {model}, because OpenVINO cannot: ")
    assert "is not a PIR program" in line and "\n" not in line


@pytest.mark.model  # it loads PaddleX
def test_a_cache_that_cannot_be_written(tmp_path, model, caplog):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "layout").write_text("a file")
    assert engine(cache_dir=tmp_path / "cache")(model) is None
    assert "because OpenVINO cannot: File exists" in caplog.text


@pytest.mark.model  # it loads PaddleX
def test_openvino_that_is_asked_for_and_cannot_be_had(tmp_path, model):
    with pytest.raises(NotReady, match="LAYOUT_ENGINE is openvino, but OpenVINO cannot run .* set auto or paddle"):
        engine(cache_dir=tmp_path / "cache", layout_engine="openvino")(model)


@pytest.mark.model  # it loads PaddleX
def test_paddle_that_is_asked_for_needs_no_graph(tmp_path, model):
    shutil.rmtree(model)
    assert engine(cache_dir=tmp_path / "cache", layout_engine="paddle")(model) is None
    assert not (tmp_path / "cache" / "layout").exists()


def test_bad_settings_end_the_service(monkeypatch, capsys, layout_model, tmp_path):
    monkeypatch.setenv("LAYOUT_ENGINE", "tensorrt")
    assert server.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("docparser: LAYOUT_ENGINE: ") and "auto|openvino|paddle" in line and "'tensorrt'" in line
    monkeypatch.setenv("LAYOUT_ENGINE", "openvino")
    monkeypatch.setenv("LAYOUT_MODEL_DIR", str(layout_model))
    monkeypatch.setenv("PARSER_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert server.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        line
        == "docparser: LAYOUT_ENGINE is openvino, but OpenVINO is not installed; install it, or set auto or paddle."
    )
