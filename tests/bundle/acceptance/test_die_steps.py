# SPDX-License-Identifier: Apache-2.0
"""The step `each die alone` of scripts/acceptance.sh. The engine and the parser are simulated."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bundle.acceptance import dies
from bundle.acceptance.steps import FAIL, PASS, Outcome
from bundle.compose import dies as compose_dies
from bundle.compose import project
from tests.bundle.acceptance.simulated_bundle import DrawnPages, asked, checked, lines, node_at, states
from tests.support.simulated_docker import SimulatedDocker
from tool_errors import ServiceError


@pytest.mark.server
def test_each_die_is_judged(docker: SimulatedDocker, parser: DrawnPages):
    node = node_at(parser, HARDWARE="ascend")
    docker.say("dies", checked([0, 5]))
    assert dies.alone(node) == Outcome(
        PASS, "2 dies, in PaddleOCR-VL's shapes: 6 results right; the nearest to its tolerance: linear, die 5, 25 %"
    )
    assert dies.atb(node).verdict == PASS
    docker.say("dies", checked([0, 5], words="differs", error=0.5))
    assert dies.alone(node) == Outcome(
        FAIL, "2 dies, in PaddleOCR-VL's shapes: die 5, decode: differs (0.5000, at most 0.0160)"
    )
    assert dies.atb(node).verdict == FAIL
    docker.say("dies", checked([0, 5], library="npu", words="RuntimeError: 507018", error=None))
    assert dies.alone(node).found == "2 dies, in PaddleOCR-VL's shapes: die 5, decode: RuntimeError: 507018"
    assert dies.atb(node).verdict == PASS
    broken = asked([0, 5])
    broken[1] |= {"findings": [], "problem": "the process ended with status -6: no message"}
    docker.say("dies", lines(broken))
    assert "die 5: the process ended with status -6" in dies.alone(node).found and dies.atb(node).verdict == FAIL
    assert all("exec -T vlm /opt/paddleocr-vl" in call for call in docker.calls if "die_check" in call)


def test_the_attention_that_is_right_is_named():
    chosen, other = (
        {"name": f"tower attention, a page{end}", "library": library, "error": 0.5, "tolerance": 0.02, "words": ""}
        for library, end in (("npu", ""), ("atb", ", ATB"))
    )
    named = "VLM_ATTENTION=npu-atb in .env is right here"
    rows: list[dict[str, Any]] = [{"die": 3, "problem": "", "findings": [chosen, other]}]
    assert named not in dies.judge(rows).found
    chosen["words"] = "differs"
    assert dies.judge(rows).found.endswith(named)
    other["words"] = "differs"
    assert named not in dies.judge(rows).found


@pytest.mark.server
def test_the_dies_are_checked_before_anything_runs(docker: SimulatedDocker, parser: DrawnPages):
    docker.say("ps", "")
    assert dies.alone(node_at(parser)).verdict == PASS
    assert (
        docker.calls[-1]
        == "compose run --rm --name paddleocr-vl-acceptance --no-deps -T vlm python -m vlm_server.die_check"
    )
    docker.say("dies", "", status=125, err="docker: no such device /dev/davinci5\n")
    assert dies.alone(node_at(parser)) == Outcome(FAIL, "the check did not run: docker: no such device /dev/davinci5")


@pytest.mark.server
def test_no_second_container_is_opened_on_dies_that_are_held(docker: SimulatedDocker, parser: DrawnPages):
    node = node_at(parser, HARDWARE="ascend")
    docker.say("dies", "\n" + checked([0]))
    states(docker, vlm="running")
    dies.alone(node)
    assert "exec -T vlm" in docker.calls[-1]
    # It starts again and again: it is stopped first, then a container of its own checks the dies.
    states(docker, vlm="restarting")
    dies.alone(node)
    left = "rm --force paddleocr-vl-acceptance"  # by a run that was killed
    assert docker.calls[-5:-2] == [left, "compose ps --all --format json", "compose stop vlm"]
    assert docker.calls[-1].startswith("compose run --rm --name paddleocr-vl-acceptance --no-deps -T vlm")
    for rows, inspected, words in (
        ({"vlm": "exited", "vlm-next": "running"}, "", "vlm-next holds dies"),
        ({"vlm": "exited"}, "/stranger||/dev/davinci3\n", "the container stranger holds dies of this bundle"),
    ):
        states(docker, **rows)
        docker.say("running", "1234\n")
        docker.say("inspect", inspected)
        before = len(docker.calls)
        with pytest.raises(ServiceError, match=words):
            dies.alone(node)
        assert not any(" run " in call for call in docker.calls[before:])


@pytest.mark.server
def test_a_check_that_takes_too_long_leaves_no_container_on_the_dies(
    docker: SimulatedDocker, parser: DrawnPages, monkeypatch: pytest.MonkeyPatch
):
    states(docker, vlm="exited")
    call = project.call

    def slow(*words: str, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
        if "run" in words:
            raise ServiceError("docker compose run gave no answer in time")
        return call(*words, timeout=timeout, **options)

    monkeypatch.setattr(project, "call", slow)
    with pytest.raises(ServiceError):
        dies.alone(node_at(parser))
    assert docker.calls[-1] == "rm --force paddleocr-vl-acceptance"


@pytest.mark.server
def test_what_the_dies_said_before_the_time_was_over_is_judged(
    docker: SimulatedDocker, parser: DrawnPages, monkeypatch: pytest.MonkeyPatch
):
    call = project.call
    late = asked([0, 5])
    late[1] |= {"findings": [], "problem": "no answer within 600 s"}

    def slow(*words: str, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
        if "vlm_server.die_check" in words:
            raise project.NoAnswer("docker compose exec gave no answer in time", lines(late) + '{"kind": "n', "die 7")
        return call(*words, timeout=timeout, **options)

    monkeypatch.setattr(project, "call", slow)
    node = node_at(parser, HARDWARE="ascend")
    assert dies.alone(node) == Outcome(
        FAIL,
        "docker compose exec gave no answer in time; until then 2 dies, in PaddleOCR-VL's shapes: die 5: no answer "
        "within 600 s",
    )
    assert [die["die"] for die in node.dies] == [0, 5] and node.outputs["dies.json"].endswith('{"kind": "n')


@pytest.mark.server
def test_dies_that_were_present_are_checked(
    docker: SimulatedDocker, parser: DrawnPages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """NPU_IDS=present names no numbers; those of its fragment count."""
    monkeypatch.setattr(compose_dies, "FOLDER", tmp_path)
    (tmp_path / "present.yaml").write_text(compose_dies.fragment("0-3", "present", [2]))
    node = node_at(parser, HARDWARE="ascend", NPU_IDS="present")
    docker.say("dies", "\n" + checked([0, 1, 3]))
    states(docker, vlm="exited")
    docker.say("running", "1234\n")
    docker.say("inspect", "/stranger||/dev/davinci2\n")
    assert dies.alone(node).verdict == PASS
    docker.say("inspect", "/stranger||/dev/davinci3\n")
    with pytest.raises(ServiceError, match="stranger holds dies"):
        dies.alone(node)
