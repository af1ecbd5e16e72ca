# SPDX-License-Identifier: Apache-2.0
"""Graph modes: which ones a stack and a die serve with, and how they are measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.launched import SERVING, resolve, settings
from tests.support.weights import make_weights
from tool_errors import ServiceError, UsageError
from vlm_server import mode_check
from vlm_server.command import build_command
from vlm_server.mode_check import modes
from vlm_server.serving import check_graphs


def test_graph_mode_is_turned_off_by_one_variable(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    for text, expected in (("1", True), ("0", False), ("", False)):
        chosen = settings(tmp_path, HARDWARE="ascend", VLM_ENFORCE_EAGER=text)
        assert ("--enforce-eager" in build_command(chosen, SERVING, resolve(chosen), [])) is expected


@pytest.mark.parametrize(
    "env",
    [
        {"VLM_GRAPH_MODE": "piecewise"},
        {"VLM_GRAPH_MODE": "full_decode_only"},
        {"VLM_ARGS": "-cc.cudagraph_mode full_and_piecewise"},
        {"VLM_ARGS": "--no_enforce-eager"},
    ],
)
def test_graphs_of_a_310p_are_refused(tmp_path: Path, env: dict[str, str]):
    with pytest.raises(UsageError, match="but a 310P serves without graphs; leave it empty"):
        check_graphs(settings(tmp_path, HARDWARE="ascend", SOC_VERSION="ascend310p1", **env), "0.23.0")
    check_graphs(settings(tmp_path, HARDWARE="ascend", SOC_VERSION="ascend910b1", **env), "0.23.0")


@pytest.mark.parametrize(
    "env",
    [
        {"VLM_GRAPH_MODE": "full"},
        {"VLM_GRAPH_MODE": "full_decode_only"},
        {"VLM_ARGS": """--compilation-config '{"cudagraph_mode": "FULL_DECODE_ONLY"}'"""},
        {"VLM_ARGS": """--compilation-config '{"cudagraph_mode": "FULL"}'"""},
        {"VLM_ARGS": """--compilation-config='{"cudagraph_mode":"full", "a": 1}'"""},
        {"VLM_ARGS": """-O '{"cudagraph_mode": 2}'"""},
        {"VLM_ARGS": "--compilation-config.cudagraph_mode FULL"},
        {"VLM_ARGS": "--compilation_config.cudagraph_mode=full_Decode_only"},
    ],
)
def test_graphs_that_a_stack_fills_up_wrongly(tmp_path: Path, env: dict[str, str]):
    chosen = settings(tmp_path, HARDWARE="ascend", **env)
    with pytest.raises(
        UsageError, match=r"but stack 0\.11\.1 pads the steps of these graphs wrongly; .* STACK=0\.23\.0"
    ):
        check_graphs(chosen, "0.11.1")
    check_graphs(chosen, "0.23.0")


@pytest.mark.parametrize(
    ("env", "stack", "expected"),
    [
        ({"HARDWARE": "ascend"}, "0.11.1", ["piecewise", "none"]),
        ({"HARDWARE": "ascend"}, "0.23.0", ["piecewise", "full_decode_only", "full_and_piecewise", "none"]),
        ({"HARDWARE": "ascend", "SOC_VERSION": "ascend310p1"}, "0.23.0", ["none"]),
        ({"HARDWARE": "cpu"}, "0.11.1", [""]),
    ],
)
def test_which_graph_modes_are_measured(env: dict[str, str], stack: str, expected: list[str]):
    assert modes({**env, "MODELS_DIR": "models"}, stack) == expected


def test_arguments_that_choose_the_graphs_leave_nothing_to_measure():
    assert modes({"HARDWARE": "ascend", "MODELS_DIR": "models", "VLM_ARGS": "-O3"}, "0.23.0") == []


@pytest.mark.server
def test_a_mode_is_measured_where_cann_may_write_and_with_a_replicas_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
):
    """The image's working directory is read-only, and a node's 640 cores would be as many threads in each pool."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\npwd >{tmp_path}/said; env >>{tmp_path}/said; touch kernel_meta; exit 7\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(mode_check, "device_numbers", lambda: [0, 1])
    monkeypatch.setattr(mode_check.os, "sched_getaffinity", lambda _: range(640))
    monkeypatch.setattr(mode_check, "running_stack", lambda: "0.11.1")
    for name, value in {"HARDWARE": "ascend", "MODELS_DIR": str(tmp_path), "STATE_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")
    assert mode_check.main() == 1
    assert json.loads(capfd.readouterr().out)[0]["problem"].startswith("the server ended with status 7")
    work, *variables = (tmp_path / "said").read_text().splitlines()
    assert {"OMP_NUM_THREADS=8", "RAYON_NUM_THREADS=8", f"ASCEND_WORK_PATH={work}"} <= set(variables)
    assert Path(work).is_relative_to(tmp_path), "a container's /tmp is noexec"


SENTENCE = "Eleven villages share the water of the lower valley, and each of them has sent samples."


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (SENTENCE, 1),
        (SENTENCE.replace("valley", "va1ley"), 2),
        (SENTENCE[:40], "was read as 'Eleven"),
        (SENTENCE + SENTENCE, "was read as 'Eleven"),
    ],
)
def test_requests_at_once_may_choose_another_letter_and_no_other_text(
    monkeypatch: pytest.MonkeyPatch, second: str, said: int | str
):
    readings = iter((SENTENCE, SENTENCE, second))
    monkeypatch.setattr(
        mode_check,
        "Server",
        lambda url, key: SimpleNamespace(name="a", root="b", read=lambda *_: (next(readings, SENTENCE), 20)),
    )
    monkeypatch.setattr(mode_check, "serving", lambda *_: SimpleNamespace(golden="asked"))
    monkeypatch.setattr(mode_check.chinese, "read", lambda *_: "\u4e95\u6c34")
    catalog: Any = None  # which only `serving` would read
    if isinstance(said, int):
        speed, text, count = mode_check.measure("http://a", None, catalog)
        assert set(speed) == {"1", "3", "16"} and (text, count) == (f"{SENTENCE} \u4e95\u6c34", said)
    else:
        with pytest.raises(ServiceError, match=said):
            mode_check.measure("http://a", None, catalog)


@pytest.mark.parametrize(
    "env",
    [
        *({"VLM_GRAPH_MODE": mode} for mode in ("", "none", "piecewise", "full_and_piecewise")),
        {"VLM_ARGS": "-cc.cudagraph_mode full_and_piecewise"},
    ],
)
def test_other_graphs_serve_on_both_stacks(tmp_path: Path, env: dict[str, str]):
    for stack in ("0.11.1", "0.23.0"):
        check_graphs(settings(tmp_path, HARDWARE="ascend", **env), stack)
