# SPDX-License-Identifier: Apache-2.0
"""scripts/run_demo.sh against simulated services: what it prints, writes, starts and leaves behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from bundle.local_mode.supervisor import Supervisor
from bundle.settings import LocalSettings
from tests.support.local_mode import one_error_line
from tests.support.sandbox import Sandbox
from tests.support.wait import wait_for


@pytest.mark.server
def test_markdown_on_stdout_files_in_out_and_services_kept(sandbox: Sandbox):
    image = sandbox.write("page.png")
    first = sandbox.call(image, "--out", "result")
    assert first.returncode == 0, first.stderr
    assert first.stdout == "Hello ![](images/page-1-a.jpg)\n"
    assert "DEMO WEIGHTS" in first.stderr
    out = sandbox.folder / "result"
    assert (out / "page.md").read_text() == first.stdout
    assert (out / "images/page-1-a.jpg").read_bytes() == b"ABC"
    record = json.loads((out / "page.json").read_text())
    assert record["file"] == "page.png" and record["weights"]["demo"] is True
    assert record["pages"][0]["markdown"]["images"] == {"imgs/a.jpg": "images/page-1-a.jpg"}
    assert sorted(path.name for path in out.iterdir()) == ["images", "page.json", "page.md"]
    logs = list((Path(sandbox.env["RUN_DIR"]) / "logs").glob("*.log*"))
    assert {"parser.log", "supervisord.log", "vlm.log"} <= {path.name for path in logs}
    assert [path.name for path in logs if path.stat().st_mode & 0o077] == [], "logs are for their owner alone"

    second = sandbox.call(image, "--out", "result")
    assert second.returncode == 0 and "starting" not in second.stderr
    assert sandbox.call("--down").returncode == 0
    assert sandbox.processes() == []
    assert "no services were running" in sandbox.call("--down").stderr


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"hello", "unknown format"),
        (b"\x89PNG\r\n\x1a\n broken", "broken"),
    ],
)
def test_bad_files_start_nothing(sandbox: Sandbox, data: bytes | None, message: str):
    path = str(sandbox.folder / "bad.png") if data is None else sandbox.write("bad.png", data)
    result = sandbox.call(sandbox.write("good.png"), path)
    assert result.returncode == 2
    assert message in one_error_line(result.stderr) and "bad.png" in result.stderr
    assert result.stdout == "" and sandbox.processes() == [] and not (sandbox.folder / "output").exists()


def test_same_names_are_refused(sandbox: Sandbox):
    result = sandbox.call(sandbox.write("a.png"), sandbox.write("a.jpg"))
    assert result.returncode == 2 and "a.md" in one_error_line(result.stderr)


@pytest.mark.server
@pytest.mark.parametrize("setting", ["VLM_PORT", "PARSER_PORT"])
def test_a_taken_port_is_named(sandbox: Sandbox, setting: str):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", int(sandbox.env[setting])))
        holder.listen()
        result = sandbox.call(sandbox.write("page.png"))
    assert result.returncode == 2
    line = one_error_line(result.stderr)
    assert sandbox.env[setting] in line and setting in line
    assert sandbox.processes() == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"VLM_PORT": "eight"}, "VLM_PORT is 'eight'"),
        ({"PARSER_PORT": "70000"}, "PARSER_PORT is '70000'"),
        ({"VLM_PORT": "9001", "PARSER_PORT": "9001"}, "both 9001"),
        ({"VLM_MODEL": "missing"}, "VLM_MODEL is 'missing'"),
        ({"READY_TIMEOUT": "soon"}, "READY_TIMEOUT is 'soon'"),
    ],
)
def test_bad_settings(sandbox: Sandbox, variables: dict[str, str], expected: str):
    result = sandbox.call(sandbox.write("page.png"), env=variables)
    assert result.returncode == 2 and expected in one_error_line(result.stderr)
    assert sandbox.processes() == []


def test_docker_mode_without_an_engine(sandbox: Sandbox):
    result = sandbox.call(sandbox.write("page.png"), "--mode", "docker", DOCKER_HOST="unix:///nowhere.sock")
    assert result.returncode == 2 and "--mode local" in one_error_line(result.stderr)


@pytest.mark.server
@pytest.mark.parametrize(
    ("behaviour", "status", "message"),
    [
        ("refuse", 2, "file: told to answer 400 (400)"),
        ("fail", 1, "file: told to answer 503 (503)"),
        ("short", 1, "only 1 of 3 pages"),
    ],
)
def test_a_page_that_is_not_parsed_fails_the_call(sandbox: Sandbox, behaviour: str, status: int, message: str):
    result = sandbox.call(sandbox.write("page.png"), SIMULATED_PARSER=behaviour)
    assert result.returncode == status and message in one_error_line(result.stderr)
    assert sandbox.processes() == [] and not (sandbox.folder / "output").exists()


@pytest.mark.server
@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SIMULATED_VLM": "die"}, "vlm ended while starting"),
        ({"SIMULATED_PARSER": "die"}, "parser ended while starting"),
        ({"SIMULATED_PARSER": "hang", "READY_TIMEOUT": "2"}, "was not ready after"),
    ],
)
def test_a_service_that_does_not_come_up(sandbox: Sandbox, variables: dict[str, str], message: str):
    result = sandbox.call(sandbox.write("page.png"), env=variables)
    assert result.returncode == 4
    line = one_error_line(result.stderr)
    assert message in line and "log:" in line
    assert sandbox.processes() == []


@pytest.mark.server
def test_other_settings_than_the_running_services_have(sandbox: Sandbox):
    image = sandbox.write("page.png")
    assert sandbox.call(image).returncode == 0
    result = sandbox.call(image, VLM_MODEL="other")
    assert result.returncode == 2 and "--down" in one_error_line(result.stderr)
    assert sandbox.call(image).returncode == 0


@pytest.mark.server
def test_interrupt_stops_what_the_call_started(sandbox: Sandbox):
    call = sandbox.start(sandbox.write("page.png"), SIMULATED_PARSER="slow")
    wait_for(lambda: any("docparser" in line for line in sandbox.processes()))
    time.sleep(1)
    call.send_signal(signal.SIGINT)
    _, stderr = call.communicate(timeout=60)
    assert call.returncode == 130 and "Traceback" not in stderr
    assert sandbox.processes() == []


@pytest.mark.server
def test_interrupt_leaves_services_of_an_earlier_call(sandbox: Sandbox):
    image = sandbox.write("page.png")
    assert sandbox.call(image, SIMULATED_PARSER="").returncode == 0
    before = sorted(sandbox.processes())
    call = sandbox.start(image)
    call.send_signal(signal.SIGINT)
    call.communicate(timeout=60)
    assert sorted(sandbox.processes()) == before


@pytest.mark.server
def test_a_service_that_dies_later_is_started_again(sandbox: Sandbox):
    image = sandbox.write("page.png")
    assert sandbox.call(image).returncode == 0

    values = {"SUPERVISOR_SOCKET": str(sandbox.folder / "run/supervisor.sock")}
    supervisor = Supervisor(LocalSettings("127.0.0.1", 8000, "127.0.0.1", 8080, 60.0, values))
    wait_for(lambda: supervisor.info("vlm")["statename"] == "RUNNING")  # for good, after `startsecs`
    pid = supervisor.info("vlm")["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: supervisor.info("vlm")["pid"] not in (0, pid))
    assert sandbox.call(image).returncode == 0
