# SPDX-License-Identifier: Apache-2.0
"""scripts/acceptance.sh on a simulated engine and a simulated parser: what fails, what is said, and no secret gets out.

tests/images runs it on the real ones.
"""

from __future__ import annotations

import base64
import errno
import json
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bundle.acceptance import __main__ as acceptance
from bundle.acceptance import dies, load, machine, pages, serving
from bundle.acceptance.__main__ import STEPS
from bundle.acceptance.node import Node, Options
from bundle.acceptance.steps import FAIL, PASS, SKIP, WARN, Outcome, Step, accepted, take
from bundle.compose import dies as compose_dies
from bundle.compose import project
from bundle.offline import contents
from bundle.support.redact import MARK
from percentiles import percentile
from tests.support.paths import ROOT
from tests.support.simulated_docker import SimulatedDocker
from tests.support.simulated_parser import SimulatedParser
from tool_errors import ServiceError

KEY, TOKEN = "kY7-planted-key-in-plain", "planted-token-0123456789"
DATA = ROOT / "tests/data"
RECORDED = json.loads((ROOT / "models/demo/PaddleOCR-VL/selftest.json").read_text())["page"]


class DrawnPages(SimulatedParser):
    """Gives back what the documents in tests/data hold, or what `text` makes of it."""

    text: Callable[[str], str] = staticmethod(lambda text: text)

    def result(self, number: int, body: dict) -> dict:
        data = base64.b64decode(body["file"])
        name = next(path for path in DATA.iterdir() if path.is_file() and path.read_bytes() == data)
        drawn = json.loads(name.with_suffix(".json").read_text())
        kept = [
            " ".join(block["text"] for block in page["blocks"] if block["label"] not in pages.LEFT_OUT)
            for page in drawn.get("pages", [drawn])
        ]
        if name.name == RECORDED["file"]:
            kept = [RECORDED["text"]]  # the self-test compares this page letter by letter
        return {"layoutParsingResults": [{"markdown": {"text": self.text(text)}} for text in kept], "docparser": {}}


@pytest.fixture
def parser() -> Iterator[DrawnPages]:
    found = DrawnPages()
    yield found
    found.close()


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parser: DrawnPages) -> SimulatedDocker:
    """A bundle of two replicas that is well. Answers have the form of docker 26.1, compose 2.26."""
    found = SimulatedDocker(tmp_path, monkeypatch)
    well = {"ID": "1f", "State": "running", "Health": "healthy", "Image": "x"}
    rows = [{"Service": name, **well} for name in ("vlm", "parser")]
    found.say("inspect", [{"RestartCount": 0, "State": {"ExitCode": 0}}])
    found.say("ps", "".join(json.dumps(row) + "\n" for row in rows))
    found.say("labels", {})
    replicas = [{"number": index, "port": 8100 + index, "die": index, "up": True, "detail": ""} for index in (0, 1)]
    found.say("replicas", {"configured": 2, "replicas": replicas, "missing": ""})
    found.say("disk", "Filesystem 1024-blocks Used Available Capacity Mounted\n/dev/x 104857600 0 52428800 50% /var\n")
    found.say("dies", "a warning\n" + checked([None]))
    found.say("crop", [{"replica": index, "text": "A sentence.", "seconds": 0.5, "error": ""} for index in (0, 1)])
    found.say("selftest", {"passed": True, "findings": [{"name": "replica 0, a.png", "passed": True, "words": ""}]})
    found.say("logs", f"vlm-1 | Authorization: Bearer {TOKEN}\n")
    found.say("version", "26.1.5\n")
    found.say("compose", "2.26.1\n")
    found.say("root", {"DockerRootDir": str(tmp_path)})
    for name, value in {"HARDWARE": "cpu", "PARSER_PORT": str(parser.port), "PARSER_API_KEY": KEY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MODELS_DIR", raising=False)
    return found


def lines(dies: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(die) + "\n" for die in dies)


def checked(numbers: list[int | None], **changed: object) -> str:
    """What vlm_server.die_check prints, see `asked`."""
    return lines(asked(numbers, **changed))


def asked(numbers: list[int | None], **changed: object) -> list[dict[str, Any]]:
    """What vlm_server.die_check finds; `changed` replaces fields of the last die's ATB operator."""
    kinds = (
        ("linear", "torch", 0.002, 0.008),
        ("write to the cache", "atb", 0.0, 0.0),
        ("decode", "atb", 0.003, 0.016),
    )
    found: list[dict[str, Any]] = []
    for die in numbers:
        findings: list[dict[str, Any]] = [
            {"name": name, "library": library, "error": error, "tolerance": most, "seconds": 0.1, "words": ""}
            for name, library, error, most in kinds
        ]
        kind = "cpu" if die is None else "npu"
        found.append({"kind": kind, "die": die, "seconds": 1.0, "findings": findings, "problem": ""})
    found[-1]["findings"][-1].update(changed)
    return found


def node_at(parser: SimulatedParser, **values: str) -> Node:
    return Node({"HARDWARE": "cpu", **values}, Options(0.001, 0), parser.url, replicas=2)


def demo(node: Node) -> Node:
    node.weights = {kind: {"model": "x", "demo": True} for kind in ("vlm", "layout")}
    return node


@pytest.fixture
def whole(docker: SimulatedDocker, tmp_path: Path) -> Callable[[], tuple[int, dict[str, str], str]]:
    """A function: run the script; status, files of the archive, everything that was printed."""

    def run() -> tuple[int, dict[str, str], str]:
        out = tmp_path / "acceptance.tar.gz"
        words = [str(ROOT / "scripts/acceptance.sh"), "--minutes", "0.001", "--wait", "0.01", "--out", str(out)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
        assert out.is_file(), done.stderr
        assert out.stat().st_mode & 0o777 == 0o600
        with tarfile.open(out) as archive:
            files = {
                member.name.partition("/")[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]  # a regular file
                for member in archive
            }
        return done.returncode, files, done.stdout + done.stderr

    return run


@pytest.mark.server
def test_a_whole_run_names_each_step_and_keeps_each_output(docker: SimulatedDocker, whole):
    # The simulated parser has no metrics and says nothing of weights, which is no failure of a step.
    status, files, printed = whole()
    found = json.loads(files["report.json"])
    verdicts = {step["name"]: step["verdict"] for step in found["steps"]}
    assert list(verdicts) == [step.name for step in STEPS]
    assert verdicts == {
        **dict.fromkeys(verdicts, PASS),
        **dict.fromkeys(("driver", "ATB", "graph modes", "graph capture"), SKIP),
        "preflight": verdicts["preflight"],
    }, found
    assert status == (1 if verdicts["preflight"] == FAIL else 0) and found["accepted"] is (status == 0)
    assert files["report.md"] in printed and "should read is not recorded" in files["report.md"]
    named = {name for step in found["steps"] for name in step["files"]}
    assert named == set(files) - {"report.md", "report.json"} and "raw/03-each-die-alone/dies.json" in named
    assert not any("compose up" in call for call in docker.calls), "it runs already"


@pytest.mark.server
def test_no_planted_secret_gets_out(docker: SimulatedDocker, whole):
    docker.say("crop", f"PARSER_API_KEY is {KEY}\n", status=1, err=f"Authorization: Bearer {TOKEN}\n")
    docker.say("dies", "", status=1, err=f"https://me:{TOKEN}@proxy.example refused {KEY}\n")
    status, files, printed = whole()
    assert status == 1
    everything = "".join(files.values()) + printed
    assert KEY not in everything and TOKEN not in everything
    assert files["report.md"].count(MARK) >= 1 and MARK in files["raw/03-each-die-alone/dies.json.stderr"]
    # What came after still ran and still says something.
    later = {step["name"]: step["verdict"] for step in json.loads(files["report.json"])["steps"]}
    assert later["each die alone"] == later["one crop"] == FAIL and later["ten pages"] == later["load"] == PASS


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
def test_what_does_not_run_is_started(docker: SimulatedDocker, parser: DrawnPages):
    docker.say("ps", "")
    docker.say("up", "", status=1, err="no such image\nfailed\n")
    found = serving.all_dies(node_at(parser))
    assert found.verdict == FAIL and "docker compose up: failed" in found.found
    assert "compose up --detach --no-build" in docker.calls


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


@pytest.mark.server
def test_driver_and_dies_by_npu_smi(docker: SimulatedDocker, parser: DrawnPages, tmp_path: Path):
    table = (DATA / "npu-smi/a3.txt").read_text()
    program = tmp_path / "docker/bin/npu-smi"

    def say(text: str) -> None:
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        program.chmod(0o755)

    node = node_at(parser, HARDWARE="ascend")
    node.findings = [{"check": "driver", "level": "PASS", "found": "25.2.3"}]
    say(table)
    found = machine.driver(node)
    assert found.verdict == PASS and "3 dies; driver 25.2.3" in found.found, found
    assert {"map.txt", "0-health.txt", "0-ecc.txt"} <= set(node.outputs)
    say(table.replace("| OK ", "| Alarm ", 1))
    assert machine.driver(node).verdict == WARN and "each die alone: die 0 (Alarm)" in machine.driver(node).found
    say(table.replace("| OK ", "| Critical ", 1))
    assert machine.driver(node).verdict == FAIL and "not usable: die 0 (Critical)" in machine.driver(node).found
    # One that is left out by NPU_IDS is said, and fails nothing.
    spared = machine.driver(node_at(parser, HARDWARE="ascend", NPU_IDS="1-2"))
    assert spared.verdict == PASS and "not usable, and left out by NPU_IDS: die 0" in spared.found
    say((DATA / "npu-smi/a2.txt").read_text())
    assert "not A3 but A2" in machine.driver(node).found
    say("")
    assert machine.driver(node).verdict == FAIL


@pytest.mark.server
def test_the_driver_step_says_what_npu_smi_failed_with(docker: SimulatedDocker, parser: DrawnPages, tmp_path: Path):
    program = tmp_path / "docker/bin/npu-smi"
    program.write_text(f"#!/bin/sh\ncat {DATA}/npu-smi/fails-8005.txt >&2; exit 1\n")
    program.chmod(0o755)
    found = machine.driver(node_at(parser, HARDWARE="ascend"))
    assert found.verdict == FAIL and found.found.startswith("the driver does not let this process in (-8005); ")


@pytest.mark.server
def test_other_products_are_accepted_as_atlas_says(docker: SimulatedDocker, parser: DrawnPages, tmp_path: Path):
    program = tmp_path / "docker/bin/npu-smi"
    of_map = DATA / "npu-smi/map-a2.txt"
    program.write_text(f'#!/bin/sh\n[ "$2" != -m ] || exec cat {of_map}\ncat {DATA}/npu-smi/a2.txt\n')
    program.chmod(0o755)
    assert machine.driver(node_at(parser, HARDWARE="ascend", ATLAS="a2")).verdict == PASS
    # Without a map nobody is said to be sick, or left out.
    table = (DATA / "npu-smi/a2.txt").read_text().replace("| OK      ", "| Critical", 1)
    program.write_text(f'#!/bin/sh\n[ "$2" != -m ] || exit 1\ncat <<END\n{table}\nEND\n')
    found = machine.driver(node_at(parser, HARDWARE="ascend", ATLAS="a2"))
    assert found.verdict == WARN and "is not known" in found.found and "NPU 0 has the Health Critical" in found.found
    assert "left out" not in found.found


def states(docker: SimulatedDocker, **found: str) -> None:
    docker.say("ps", "".join(json.dumps({"Service": name, "State": state}) + "\n" for name, state in found.items()))


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


def test_what_a_command_printed_before_its_time_was_over_is_kept(parser: SimulatedParser):
    node = node_at(parser)
    # Longer each time, until the shell has had the time to print.
    for seconds in (0.5, 2, 8, 32):
        with pytest.raises(project.NoAnswer, match="sh -c .* gave no answer within"):
            node.command("x.txt", "sh", "-c", "echo one; echo two >&2; exec sleep 600", timeout=seconds)
        if node.outputs["x.txt"]:
            break
    assert node.outputs["x.txt"] == "one\n" and node.outputs["x.txt.stderr"].startswith("two\n\nsh -c ")


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


@pytest.mark.server
def test_ten_pages(docker: SimulatedDocker, parser: DrawnPages):
    node = demo(node_at(parser))
    found = pages.ten_pages(node)
    assert found.verdict == PASS and "10 pages" in found.found
    assert len(json.loads(node.outputs["pages.json"])) == 10
    parser.text = lambda text: text.replace("e", "c")
    found = pages.ten_pages(node)
    assert found.verdict == FAIL and "report.png, page 1" in found.found and "handbook.pdf, page 3" in found.found
    node.weights = {}
    assert pages.ten_pages(node).verdict == PASS
    parser.text = lambda text: "the the the 0 0 0"
    found = pages.ten_pages(node)
    assert found.verdict == FAIL, "dies that all read the same nonsense agree with each other"
    parser.text = lambda text: " ".join(text.split()[: len(text.split()) * 3 // 4])
    found = pages.ten_pages(node)
    assert (
        found.verdict == PASS
        and "wanted: 50 %, since how well these weights should read is not recorded" in found.found
    )
    parser.text = lambda text: "  "
    assert "no text" in pages.ten_pages(node).found


def test_pages_that_are_missing_or_partial():
    truth = pages.true_words("handbook.pdf")
    one = {"markdown": {"text": " ".join(truth[0])}}
    result = {"layoutParsingResults": [one], "docparser": {"partial": True}}
    _, wrong = pages.check("handbook.pdf", result, demo=False)
    assert wrong == [f"handbook.pdf: 1 of {len(truth)} pages came back", "handbook.pdf: parts of it failed"]


def test_words_of_tables_count_wherever_they_stand():
    table = "<table><tr><td>Amount</td><td>18.50</td></tr></table>"
    assert pages.share_found(table, pages.words("18.50 Amount")) == 1
    assert pages.share_found("a b", pages.words("a a b c")) == 0.5


@pytest.mark.server
def test_load(docker: SimulatedDocker, parser: DrawnPages):
    node = node_at(parser)
    found = load.load(node)
    assert found.verdict == PASS and "from 4 clients" in found.found and found.found.endswith("0 failed"), found
    calls = json.loads(node.outputs["calls.json"])
    assert len(calls) >= 4 and {"began", "seconds", "error"} == set(calls[0])
    parser.script[1] = [500]
    found = load.load(node)
    assert found.verdict == FAIL and "1 failed: " in found.found and "told to answer 500" in found.found
    parser.always = 503
    found = load.load(Node({}, Options(5, 1), parser.url, replicas=1))
    assert found.verdict == FAIL and found.found.startswith("no page of "), "it must not go on for five minutes"
    assert load.load(Node({}, Options(0, 1), parser.url)) == Outcome(SKIP, "--skip-load")


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (25, 1), (50, 2), (51, 3), (95, 4), (100, 4)])
def test_percentiles_are_values_that_were_seen(percent: int, expected: float):
    assert percentile([4, 2, 1, 3], percent) == expected and percentile([7.0], percent) == 7


def test_ctrl_c_keeps_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], docker: SimulatedDocker
):
    """Raw outputs, those of the step that was interrupted too, and a report that accepts nothing."""

    def found(node: Node) -> Outcome:
        node.keep("a.txt", "what the first step saw")
        return Outcome(PASS, "well")

    def interrupted(node: Node) -> Outcome:
        node.keep("b.txt", "half")
        raise KeyboardInterrupt

    steps = [Step("one", "x", found), Step("two", "x", interrupted), Step("three", "x", found)]
    monkeypatch.setattr(acceptance, "STEPS", steps)
    assert acceptance.main(["--out", str(tmp_path / "a.tar.gz")]) == 130
    assert "NOT ACCEPTED: 1 pass, 1 fail" in capsys.readouterr().out
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {"raw/01-one/a.txt", "raw/02-two/b.txt", "report.md", "report.json"}


def test_a_report_is_printed_although_the_archive_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], docker: SimulatedDocker
):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(acceptance, "STEPS", [Step("one", "x", lambda node: Outcome(PASS, "well"))])
    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    with pytest.raises(OSError, match="No space left"):
        acceptance.main(["--out", str(tmp_path / "a.tar.gz")])
    assert "ACCEPTED: 1 pass" in capsys.readouterr().out and not list(tmp_path.glob("a.tar*"))


def test_what_a_step_raises_is_its_failure(parser: SimulatedParser):
    def broken(node: Node) -> Outcome:
        return Outcome(PASS, json.loads("{}")["missing"])

    record, outputs = take(Step("broken step", "nothing", broken), 7, node_at(parser))
    assert record.verdict == FAIL and "an answer cannot be understood (KeyError" in record.found
    assert record.files == list(outputs) == ["raw/07-broken-step/error.txt"]


def test_the_pages_travel_with_the_offline_archive():
    carried = set(contents.tree_files())
    needed = [DATA / name for document in pages.DOCUMENTS for name in (document, f"{Path(document).stem}.json")]
    assert set(needed) <= carried and len(needed) == 12


def test_nothing_passed_is_not_accepted():
    skipped = take(Step("s", "x", lambda node: Outcome(SKIP, "")), 1, Node({}, Options(0, 0), ""))[0]
    assert not accepted([skipped]) and not accepted([])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--minutes", "0"], "--minutes"),
        (["--minutes", "two"], "--minutes"),
        (["--minutes", "nan"], "--minutes"),
        (["--out", "/nowhere/at/all.tar.gz"], "/nowhere/at/all.tar.gz: No such file"),
        (["--out", "/etc/hostname/a.tar.gz"], "/etc/hostname/a.tar.gz: Not a directory"),
        (["--out", "/usr"], "--out /usr: is a folder; expected the name of a file, like /usr/acceptance-"),
    ],
)
def test_arguments_that_cannot_be_used(words: list[str], said: str):
    command = [str(ROOT / "scripts/acceptance.sh"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2 and said in done.stderr
