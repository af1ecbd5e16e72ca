# SPDX-License-Identifier: Apache-2.0
"""scripts/run_demo.sh against simulated services: what it prints, writes, starts and leaves behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from bundle.demo.inputs import open_documents
from bundle.local_mode.settings import LocalSettings
from bundle.local_mode.supervisor import Supervisor
from tests.support.local_mode import one_error_line
from tests.support.paths import ROOT
from tests.support.sandbox import PNG, Sandbox
from tests.support.wait import wait_for
from tool_errors import UsageError


@pytest.fixture(scope="module")
def first(shared_sandbox: Sandbox) -> subprocess.CompletedProcess[str]:
    """The call that starts the services of `shared_sandbox`."""
    call = shared_sandbox.call(shared_sandbox.write("page.png"), "--out", "result", SIMULATED_PARSER="")
    assert call.returncode == 0, call.stderr
    return call


@pytest.fixture
def running(shared_sandbox: Sandbox, first: subprocess.CompletedProcess[str]) -> Sandbox:
    """Its services run, and its page.png has been parsed."""
    return shared_sandbox


@pytest.mark.server
def test_markdown_on_stdout_files_in_out_and_services_kept(running: Sandbox, first: subprocess.CompletedProcess[str]):
    assert first.stdout == "Hello ![](images/page-1-a.jpg)\n"
    assert "DEMO WEIGHTS" in first.stderr
    out = running.folder / "result"
    assert (out / "page.md").read_text() == first.stdout
    assert (out / "images/page-1-a.jpg").read_bytes() == b"ABC"
    record = json.loads((out / "page.json").read_text())
    assert record["file"] == "page.png" and record["weights"]["demo"] is True
    assert record["pages"][0]["markdown"]["images"] == {"imgs/a.jpg": "images/page-1-a.jpg"}
    assert sorted(path.name for path in out.iterdir()) == ["images", "page.json", "page.md"]
    logs = list((Path(running.env["RUN_DIR"]) / "logs").glob("*.log*"))
    assert {"parser.log", "supervisord.log", "vlm.log"} <= {path.name for path in logs}
    assert [path.name for path in logs if path.stat().st_mode & 0o077] == [], "logs are for their owner alone"

    second = running.call(running.write("page.png"), "--out", "result")
    assert second.returncode == 0 and "starting" not in second.stderr


@pytest.mark.server
def test_other_settings_than_the_running_services_have(running: Sandbox):
    image = running.write("page.png")
    result = running.call(image, VLM_MODEL="other", PARSER_TEXT_LAYER="off")
    line = one_error_line(result.stderr)
    assert result.returncode == 2 and "--down" in line
    assert "other values of PARSER_TEXT_LAYER, VLM_MODEL; " in line
    assert running.call(image).returncode == 0


@pytest.mark.server
def test_interrupt_leaves_services_of_an_earlier_call(running: Sandbox):
    before = sorted(running.processes())
    call = running.start(running.write("page.png"))
    call.send_signal(signal.SIGINT)
    call.communicate(timeout=60)
    assert before and sorted(running.processes()) == before


@pytest.mark.server
def test_a_service_that_dies_later_is_started_again(running: Sandbox):
    values = {"SUPERVISOR_SOCKET": str(running.folder / "run/supervisor.sock")}
    supervisor = Supervisor(LocalSettings(values))
    assert Path(f"/proc/{supervisor.pid()}/cwd").resolve() == ROOT, "where relative paths of .env begin"
    wait_for(lambda: supervisor.info("vlm")["statename"] == "RUNNING")  # for good, after `startsecs`
    pid = supervisor.info("vlm")["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: supervisor.info("vlm")["pid"] not in (0, pid))
    assert running.call(running.write("page.png")).returncode == 0


@pytest.mark.server
def test_down_stops_them(running: Sandbox):
    """The last of those that share them."""
    assert running.call("--down").returncode == 0
    assert running.processes() == []
    assert "no services were running" in running.call("--down").stderr


@pytest.mark.parametrize(("data", "message"), [(None, "no such file"), (b"", "is empty"), (b"hello", "unknown format")])
def test_files_that_are_refused_by_their_beginning(tmp_path: Path, data: bytes | None, message: str):
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    good.write_bytes(PNG)
    if data is not None:
        bad.write_bytes(data)
    with pytest.raises(UsageError, match=message) as refused:
        open_documents([str(good), str(bad)])
    assert str(refused.value).startswith(f"{bad}: ")


def check_nothing_was_started(sandbox: Sandbox, result: subprocess.CompletedProcess[str]) -> None:
    assert result.stdout == "" and sandbox.processes() == [] and not (sandbox.folder / "output").exists()


def test_a_broken_file_starts_nothing(sandbox: Sandbox):
    result = sandbox.call(sandbox.write("good.png"), sandbox.write("bad.png", b"\x89PNG\r\n\x1a\n broken"))
    assert result.returncode == 2
    assert "broken" in one_error_line(result.stderr) and "bad.png" in result.stderr
    check_nothing_was_started(sandbox, result)


def test_same_names_are_refused(sandbox: Sandbox):
    result = sandbox.call(sandbox.write("a.png"), sandbox.write("a.jpg"))
    assert result.returncode == 2 and "a.md" in one_error_line(result.stderr)
    check_nothing_was_started(sandbox, result)


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


def test_a_model_that_is_missing(sandbox: Sandbox):
    result = sandbox.call(sandbox.write("page.png"), VLM_MODEL="missing")
    assert result.returncode == 2 and "VLM_MODEL is 'missing'" in one_error_line(result.stderr)
    check_nothing_was_started(sandbox, result)


def test_docker_mode_without_an_engine(sandbox: Sandbox):
    result = sandbox.call(sandbox.write("page.png"), "--mode", "docker", DOCKER_HOST="unix:///nowhere.sock")
    assert result.returncode == 2 and "--mode local" in one_error_line(result.stderr)


@pytest.mark.server
@pytest.mark.parametrize(
    ("behaviour", "status", "message"),
    [
        ("refuse", 2, "file: told to answer 400 (400)"),
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
def test_interrupt_stops_what_the_call_started(sandbox: Sandbox):
    call = sandbox.start(sandbox.write("page.png"), SIMULATED_PARSER="slow")
    wait_for(lambda: any("docparser" in line for line in sandbox.processes()))
    time.sleep(1)
    call.send_signal(signal.SIGINT)
    _, stderr = call.communicate(timeout=60)
    assert call.returncode == 130 and "Traceback" not in stderr
    assert sandbox.processes() == []
