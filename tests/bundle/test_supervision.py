# SPDX-License-Identifier: Apache-2.0
"""How a container's programs are started, tried again and given up: supervisord, its files, and the guard."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

from container import parser, supervisord, vlm
from container.guard import QUICK_S, TRIES, Guard, pairs
from tests.support.paths import ROOT
from tests.support.processes import child_environment


@pytest.mark.parametrize(("service", "more"), [(vlm, ()), (vlm, vlm.LAYOUT), (parser, ())])
def test_supervisord_gets_every_variable_that_its_files_name(
    tmp_path: Path, service: types.ModuleType, more: tuple[str, ...]
):
    """supervisord refuses a file with an unknown variable. What .env leaves out arrives empty and gets its default."""
    image = {"ENVS_DIR": "/opt/venv", "RUN_DIR": str(tmp_path), "VLM_REPLICAS": "2", "WATCHDOG_FAILURES": ""}
    files, programs = (*getattr(service, "FILES", service.PROGRAMS), *more), (*service.PROGRAMS, *more)
    env = supervisord.environment(files, service.DEFAULTS, image)
    paths = [ROOT / "config" / name for name in env["PROGRAMS"].split()]
    assert [path.stem for path in paths] == list(files)
    text = "".join(path.read_text() for path in (ROOT / "config/supervisord.conf", *paths))
    assert set(re.findall(r"%\(ENV_(\w+)\)", text)) <= set(env)
    assert service is parser or env["WATCHDOG_FAILURES"] == "3"
    # Each program's log is a link, and each link belongs to a program.
    logs = set(re.findall(r"%\(ENV_LOG_DIR\)s/(\w+)\.log", text)) - {"supervisord"}
    assert logs == set(programs)
    supervisord.prepare_logs(programs, tmp_path)
    supervisord.prepare_logs(programs, tmp_path)
    assert {link.stem for link in (tmp_path / "logs").iterdir() if str(link.readlink()) == "/dev/stdout"} == logs


def test_the_model_is_settled_until_the_container_ends():
    """A replica that starts again takes no weights that came meanwhile: calls for the others' model would get 404."""
    found = {"model": "PaddleOCR-VL-0.9B", "entry": "PaddleOCR-VL", "max_num_seqs": 128}
    own = {"VLM_MODEL_NAME": "PaddleOCR-VL-0.9B", "VLM_MAX_NUM_SEQS": "128"}
    assert vlm.settled({}, found) == {**own, "VLM_MODEL": "PaddleOCR-VL"}
    # Named by the operator, as a folder perhaps; or the demo's, which no name brings.
    assert vlm.settled({"VLM_MODEL": "mine"}, found) == vlm.settled({}, {**found, "entry": None}) == own


def test_a_server_that_ends_with_0_is_started_again():
    """vLLM's API server does when its engine has died; only status 2 means that trying again is useless."""
    for name in ("vlm", "parser"):
        assert "\nautorestart=unexpected\n" in (text := (ROOT / f"config/supervisor/{name}.conf").read_text())
        assert "\nexitcodes=2\n" in text


def test_the_guard_tells_giving_up_from_a_retry():
    guard = Guard()
    assert guard.status("PROCESS_STATE_FATAL", {}, 0) == 1
    expected = pairs("processname:vlm-0 groupname:vlm from_state:RUNNING expected:1 pid:7")
    assert guard.status("PROCESS_STATE_EXITED", expected, 0) == 2
    optional = pairs("processname:layout groupname:layout from_state:RUNNING expected:1 pid:7")
    for event in ("PROCESS_STATE_EXITED", "PROCESS_STATE_FATAL"):
        assert guard.status(event, optional, 0) is None


@pytest.mark.parametrize(("between", "status"), [(QUICK_S - 1, 1), (QUICK_S + 1, None)])
def test_the_guard_counts_ends_in_a_row(between: float, status: int | None):
    guard = Guard()
    ends = [pairs(f"processname:{name} expected:0") for name in ("vlm-0", "vlm-1")]
    found = [guard.status("PROCESS_STATE_EXITED", end, number * between) for number in range(TRIES) for end in ends]
    assert found == [None] * (2 * TRIES - 2) + [status] * 2


@pytest.mark.server
@pytest.mark.parametrize(("ends", "status"), [("exit 2", 2), ("exec sleep 60", 0)])
def test_a_container_ends_with_the_status_of_the_program_that_gave_up(tmp_path: Path, ends: str, status: int):
    """Real supervisord and guard, and a program in the parser's place. A container that is stopped ends with 0."""
    program = (ROOT / "config/supervisor/parser.conf").read_text()
    program = re.sub("(?m)^command=.*$", f"command=/bin/sh -c 'echo begun; {ends}'", program)
    (tmp_path / "program.conf").write_text(program)
    image = {**child_environment(), "RUN_DIR": str(tmp_path), "PARSER_STOP_SECONDS": "5", "ENVS_DIR": "/none"}
    supervisord.prepare_logs(parser.PROGRAMS, tmp_path)
    env = supervisord.environment(parser.PROGRAMS, {}, image)
    env["PROGRAMS"] = f"{tmp_path}/program.conf supervisor/guard.conf"
    code = "import os; from container import supervisord; supervisord.become(os.environ)"
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) as container:
        assert container.stdout
        said = ""
        late = threading.Timer(60, container.kill)  # one that does not end would keep its output open
        late.start()
        for line in container.stdout:
            said += line
            if line == "begun\n" and not status:
                container.terminate()
        late.cancel()
        assert container.wait(60) == status, said
    assert said.count("begun\n") == 1, "a wrong configuration is not tried again"


def test_the_guard_answers_each_event_and_ends_who_started_it(tmp_path: Path):
    """As supervisord sees it, which sends an event to a listener only once that has said READY."""
    with subprocess.Popen(
        # The shell stands for supervisord.
        ["sh", "-c", f"{sys.executable} -m container.guard; exit 7"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(RUN_DIR=str(tmp_path)),
    ) as starter:
        events, answers, errors = starter.stdin, starter.stdout, starter.stderr
        assert events and answers and errors
        said, descriptor = b"", answers.fileno()

        def hear(expected: bytes) -> None:
            nonlocal said
            while expected not in said:
                assert select.select([descriptor], [], [], 60)[0], f"{said!r} came, and no {expected!r}"
                piece = os.read(descriptor, 4096)
                assert piece, f"the guard ended after {said!r}"
                said += piece
            said = said.partition(expected)[2]

        def event(payload: str) -> bytes:
            return f"ver:3.0 eventname:PROCESS_STATE_EXITED len:{len(payload)}\n{payload}".encode()

        try:
            for expected in (0, 1):
                hear(b"READY\n")
                events.write(
                    event(f"processname:layout groupname:layout from_state:RUNNING expected:{expected} pid:8\n")
                )
                events.flush()
                hear(b"RESULT 2\nOK")
                # The container goes on without the layout server; status.sh waits for one that is started again alone.
                assert supervisord.stays_away({"RUN_DIR": str(tmp_path)}, "layout").exists() == bool(expected)
                hear(b"READY\n")
                assert starter.poll() is None
                events.write(event(f"processname:vlm-0 groupname:vlm from_state:RUNNING expected:{expected} pid:7\n"))
                events.flush()
                hear(b"RESULT 2\nOK")
            assert starter.wait(60) == -signal.SIGTERM
        finally:
            events.close()  # the guard ends
        assert b"vlm-0 has given up: ending the container with status 2" in errors.read()
        assert (tmp_path / "exit-status").read_text() == "2\n"
