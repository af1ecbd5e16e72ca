# SPDX-License-Identifier: Apache-2.0
"""Steps of scripts/acceptance.sh that ask each replica, look for captured graphs, and measure graph modes. The engine
and the parser are simulated."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from typing import Any

import pytest

from bundle.acceptance import serving
from bundle.acceptance.steps import FAIL, PASS, SKIP, WARN, Outcome
from bundle.compose import project
from tests.bundle.acceptance.simulated_bundle import DrawnPages, node_at, states
from tests.support.simulated_docker import SimulatedDocker


@pytest.mark.server
def test_what_does_not_run_is_started(docker: SimulatedDocker, parser: DrawnPages):
    docker.say("ps", "")
    docker.say("up", "", status=1, err="no such image\nfailed\n")
    found = serving.all_dies(node_at(parser))
    assert found.verdict == FAIL and "docker compose up: failed" in found.found
    assert "compose up --detach --no-build" in docker.calls


@pytest.mark.server
@pytest.mark.parametrize(("wait", "given"), [(60, serving.START_SECONDS), (3600, 3600)])
def test_the_start_has_the_time_that_the_caller_gives(
    docker: SimulatedDocker, parser: DrawnPages, monkeypatch: pytest.MonkeyPatch, wait: float, given: float
):
    docker.say("ps", "")
    docker.say("up", "", status=1)
    seconds: dict[str, float] = {}
    call = project.call

    def note(*words: str, timeout: float, **more: Any) -> subprocess.CompletedProcess[str]:
        seconds[" ".join(words[1:3])] = timeout
        return call(*words, timeout=timeout, **more)

    monkeypatch.setattr(project, "call", note)
    node = node_at(parser)
    node.options = dataclasses.replace(node.options, wait_s=wait)
    assert serving.all_dies(node).verdict == FAIL and seconds["compose up"] == given


@pytest.mark.server
def test_a_replica_that_is_down(docker: SimulatedDocker, parser: DrawnPages):
    replicas = [
        {"number": index, "port": 8100 + index, "die": index, "up": index > 0, "detail": ""} for index in (0, 1)
    ]
    docker.say("replicas", {"configured": 2, "replicas": replicas, "missing": ""})
    found = serving.all_dies(node_at(parser))
    assert found == Outcome(FAIL, "replicas: 1 of 2 up; down or loading: 0 (die 0)")


@pytest.mark.server
def test_the_replicas_of_the_second_container_count_too(docker: SimulatedDocker, parser: DrawnPages):
    """On dies that belong to one container, both containers stay after an upgrade by halves."""
    well = {"ID": "1f", "State": "running", "Health": "healthy", "Image": "x"}
    docker.say("ps", "".join(json.dumps({"Service": name, **well}) + "\n" for name in ("vlm", "parser", "vlm-next")))
    docker.say("replicas", {"configured": 1, "replicas": [{"number": 0, "die": 8, "up": False}], "missing": ""})
    found = serving.all_dies(node_at(parser))
    assert found.verdict == FAIL and "next: 0 of 1 up; down or loading: 0 (die 8)" in found.found
    assert sum("exec -T vlm-next" in call and "container.status" in call for call in docker.calls) == 1


CAPTURED = (
    "(EngineCore pid=7) INFO 01-02 03:04:05 [model_runner_v1.py:3063] Graph capturing finished in {} secs, took\n"
)
BOUND = "replica {}: 8 cores from 0 to 7, a share; OMP_NUM_THREADS=8\n"


@pytest.mark.server
@pytest.mark.parametrize(
    ("log", "values", "verdict", "words"),
    [
        (BOUND.format(0) + BOUND.format(1) + CAPTURED.format(9) + CAPTURED.format(12), {}, PASS, "the longest 12 s"),
        (BOUND.format(0) + BOUND.format(1) + CAPTURED.format(9), {}, FAIL, "1 captures in the log for 2 replicas"),
        (CAPTURED.format(9), {}, WARN, "does not reach back"),
        ("", {"VLM_ENFORCE_EAGER": "1"}, SKIP, "turns graph mode off"),
        ("", {"VLM_GRAPH_MODE": "none"}, SKIP, "turns graph mode off"),
        ("", {"ATLAS": "310p"}, SKIP, "ATLAS=310p: a 310P serves without graphs (decision 0422)"),
        ("", {"HARDWARE": "cpu"}, SKIP, "eagerly"),
        ("", {"VLM_ARGS": "--max-num-seqs 32 --enforce-eager"}, SKIP, "VLM_ARGS turns graph mode off"),
        ("", {"VLM_ARGS": '--compilation-config \'{"cudagraph_mode": "NONE"}\''}, SKIP, "VLM_ARGS turns graph"),
        (BOUND.format(0) + BOUND.format(1), {"VLM_ARGS": "--no-enforce-eager"}, FAIL, "0 captures in the log"),
    ],
)
def test_graphs(docker: SimulatedDocker, parser: DrawnPages, log: str, values: dict, verdict: str, words: str):
    docker.say("logs", log)
    found = serving.graph_capture(node_at(parser, **{"HARDWARE": "ascend", **values}))
    assert found.verdict == verdict and words in found.found


@pytest.mark.server
def test_a_replica_that_reads_something_else(docker: SimulatedDocker, parser: DrawnPages):
    assert serving.one_crop(node_at(parser)) == Outcome(
        PASS, "all 2 replicas read the same: 'A sentence.'; at most 0.5 s"
    )
    answers = [
        {"replica": 0, "text": "A sentence.", "seconds": 0.5, "error": ""},
        {"replica": 1, "text": "B", "seconds": 0.5, "error": "reads another text than 1 of 2 replicas"},
    ]
    docker.say("crop", answers, status=1)
    assert serving.one_crop(node_at(parser)) == Outcome(FAIL, "replica 1: reads another text than 1 of 2 replicas")


PARAGRAPH = "Eleven villages share the water of the lower valley, and each of them has sent samples for three years."


def measured(mode: str, speed: float, text: str = "A page.", problem: str = "") -> dict[str, Any]:
    speeds = {} if problem else {"1": speed / 10, "3": speed / 4, "16": speed}
    return {
        "mode": mode,
        "tokens_per_second": speeds,
        "start_s": 60,
        "text": "" if problem else text,
        "readings": 2 if text.endswith("l") else 1,
        "problem": problem,
    }


@pytest.mark.server
@pytest.mark.parametrize(
    ("found", "verdict", "words"),
    [
        (
            [("piecewise", 800), ("full_decode_only", 1500), ("none", 300)],
            PASS,
            ".env: VLM_GRAPH_MODE=full_decode_only",
        ),
        ([("piecewise", 800), ("none", 300)], PASS, "piecewise 800, none 300; .env: VLM_GRAPH_MODE=piecewise"),
        # A near tie decided otherwise is no other text.
        (
            [("piecewise", 800, PARAGRAPH[:-1] + "l"), ("none", 300, PARAGRAPH)],
            PASS,
            "piecewise 800 (2 readings, all alike), none 300; .env: VLM_GRAPH_MODE=piecewise",
        ),
        # The fastest one reads something else: it is not taken, and said.
        (
            [("piecewise", 800), ("full_decode_only", 1500, "A p"), ("none", 300)],
            WARN,
            "VLM_GRAPH_MODE=piecewise; full_decode_only reads another text",
        ),
        (
            [("piecewise", 0, "", "the server ended"), ("none", 300)],
            WARN,
            ".env: VLM_GRAPH_MODE=none; piecewise: the server ended",
        ),
        ([("piecewise", 0, "", "x"), ("none", 0, "", "y")], FAIL, "piecewise: x; none: y"),
        ([], SKIP, "VLM_ARGS says which graphs"),
    ],
)
def test_the_best_graph_mode_is_named(
    docker: SimulatedDocker, parser: DrawnPages, found: list[tuple], verdict: str, words: str
):
    states(docker, vlm="exited")
    docker.say("modes", "log\n" + json.dumps([measured(*one) for one in found]))
    outcome = serving.graph_modes(node_at(parser, HARDWARE="ascend"))
    assert outcome.verdict == verdict and words in outcome.found, outcome


@pytest.mark.parametrize(
    ("best", "values", "said"),
    [
        # Empty is another mode on stack 0.23.0.
        ("piecewise", {}, ".env: VLM_GRAPH_MODE=piecewise"),
        ("piecewise", {"VLM_GRAPH_MODE": "piecewise"}, "VLM_GRAPH_MODE stays piecewise"),
        (
            "full_decode_only",
            {"VLM_ENFORCE_EAGER": "1"},
            ".env: VLM_GRAPH_MODE=full_decode_only and VLM_ENFORCE_EAGER=",
        ),
        ("none", {"VLM_GRAPH_MODE": "none"}, "VLM_GRAPH_MODE stays none"),
    ],
)
def test_the_line_for_env_takes_what_it_says_there_away(best: str, values: dict[str, str], said: str):
    """VLM_ENFORCE_EAGER=1 is refused beside a mode with graphs."""
    assert serving.for_env(best, values) == said


@pytest.mark.server
def test_graph_modes_are_not_measured_beside_a_server(docker: SimulatedDocker, parser: DrawnPages):
    assert serving.graph_modes(node_at(parser, HARDWARE="ascend")).verdict == SKIP
    assert serving.graph_modes(node_at(parser)).verdict == SKIP
    assert "310P serves without" in serving.graph_modes(node_at(parser, HARDWARE="ascend", ATLAS="310p")).found
    assert not any("mode_check" in call for call in docker.calls)
