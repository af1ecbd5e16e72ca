# SPDX-License-Identifier: Apache-2.0
"""How a container's programs are started, tried again and given up: supervisord, its files, and the guard."""

from __future__ import annotations

import configparser
import json
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

import thread_pools
from container import balancer, folders, parser, start_layout, status, supervisord, vlm, watchdog
from container.guard import Guard, pairs
from selftest.check import replica_key
from tests.support.kubernetes import compose_service
from tests.support.paths import ROOT
from tests.support.processes import child_environment
from tool_errors import DeviceError, UsageError


@pytest.mark.parametrize(("service", "more"), [(vlm, ()), (vlm, vlm.LAYOUT), (parser, ())])
def test_supervisord_gets_every_variable_that_its_files_name(
    tmp_path: Path, service: types.ModuleType, more: tuple[str, ...]
):
    """supervisord refuses a file with an unknown variable. What .env leaves out arrives empty and gets its default."""
    image = {"ENVS_DIR": "/opt/venv", "RUN_DIR": str(tmp_path), "VLM_REPLICAS": "2", "VLM_PORT": "", "VLM_MODEL": ""}
    files, programs = (*getattr(service, "FILES", service.PROGRAMS), *more), (*service.PROGRAMS, *more)
    env = supervisord.environment(files, service.DEFAULTS, image)
    paths = [ROOT / "config" / name for name in env["PROGRAMS"].split()]
    assert [path.stem for path in paths] == list(files)
    text = "".join(path.read_text() for path in (ROOT / "config/supervisord.conf", *paths))
    assert set(re.findall(r"%\(ENV_(\w+)\)", text)) <= set(env)
    assert "VLM_MODEL" not in env and (service is parser or env["VLM_PORT"] == "8000")
    # Each program's log is a link, and each link belongs to a program.
    logs = set(re.findall(r"%\(ENV_LOG_DIR\)s/(\w+)\.log", text)) - {"supervisord"}
    assert logs == set(programs)
    supervisord.prepare_logs(programs, tmp_path)
    supervisord.prepare_logs(programs, tmp_path)
    assert {link.stem: str(link.readlink()) for link in (tmp_path / "logs").iterdir()} == {
        "supervisord": "/dev/null",
        **dict.fromkeys(logs, "/dev/stdout"),
    }


class Became(BaseException):
    """The process is another one from here on: the program, its words and its environment."""

    def __init__(self, program: str, words: list[str], env: dict[str, str]) -> None:
        self.program, self.words, self.env = program, words, env


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a container, whose service becomes its program by raising Became."""

    def become(program: str, words: list[str], env: dict[str, str]) -> None:
        raise Became(program, words, dict(env))

    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(os, "execvpe", become)
    monkeypatch.chdir(tmp_path)
    own = {"ENVS_DIR": "/opt/venv", "RUN_DIR": str(tmp_path / "run"), "STATE_DIR": str(tmp_path / "state")}
    (tmp_path / "run").mkdir()
    env = {"HARDWARE": "cpu", "PATH": "/usr/bin", **own}
    monkeypatch.setattr(os, "environ", env)
    return env


def programs(env: dict[str, str]) -> list[str]:
    return [Path(name).stem for name in env["PROGRAMS"].split()]


def test_the_parsers_container_becomes_supervisord(image: dict[str, str]):
    of_the_last_time = [supervisord.exit_status(image), supervisord.balancer_file(image)]
    for file in of_the_last_time:
        file.write_text("2\n")
    with pytest.raises(Became) as became:
        parser.main()
    assert became.value.words == [sys.executable, "-m", "container.supervisord"]
    assert programs(env := became.value.env) == ["parser", "guard"] and env["PARSER_STOP_SECONDS"] == "20"
    assert not any(file.exists() for file in of_the_last_time)
    assert (Path(image["RUN_DIR"]) / "logs/guard.log").is_symlink()
    image["PARSER_MAX_BODYMIB"] = "7"
    with pytest.raises(UsageError, match="did you mean PARSER_MAX_BODY_MIB"):
        parser.main()


FOUND = '{"model": "PaddleOCR-VL-1.6-0.9B", "entry": "PaddleOCR-VL-1.6", "max_num_seqs": 16, "api_key": "k"}'


@pytest.mark.parametrize(("layout", "more"), [("", []), ("0", []), ("1", ["layout"])])
def test_the_vlms_container_becomes_supervisord(
    image: dict[str, str], monkeypatch: pytest.MonkeyPatch, layout: str, more: list[str]
):
    asked: list[tuple[list[str], dict[str, str]]] = []

    def check(words: list[str], env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append((words, env))
        return subprocess.CompletedProcess(words, 0, FOUND)

    monkeypatch.setattr(vlm.subprocess, "run", check)
    image |= {"VLM_REPLICAS": "2", "VLM_REPLICAS_PER_DIE": "2", "LAYOUT_SERVER": layout, "VLM_CORES": "none"}
    with pytest.raises(Became) as became:
        vlm.main()
    env = became.value.env
    assert programs(env) == ["vlm", "balancer", "guard", *more] and env["VLM_REPLICAS"] == "4"
    logs = {path.stem for path in (Path(image["RUN_DIR"]) / "logs").iterdir()}
    assert logs == {"supervisord", "vlm", "balancer", "metrics", "watchdog", "guard", *more}
    assert (env["VLM_MODEL"], env["VLM_MAX_NUM_SEQS"]) == ("PaddleOCR-VL-1.6", "16")
    [(words, given)] = asked
    assert words == ["/opt/venv/vlm/bin/python", "-m", "vlm_server", "--check"] and given["VLM_REPLICAS"] == "4"
    ports = json.loads(status.record(env).read_text())["ports"]
    assert ports == [8100, 8101, 8102, 8103] and env["METRICS_PORT"] == "8099"
    assert replica_key(status.record(env)) == "k", "for the self-test, as VLLM_API_KEY is for the watchdog"
    assert env["VLM_HOST"] == env["LAYOUT_HOST"] == "0.0.0.0"


def shut(_: object) -> None:
    raise DeviceError("no die answers")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"VLM_REPLICAS": "65"}, "VLM_REPLICAS is '65'"),
        ({"VLM_CORES": "99999"}, r"VLM_CORES is .*list 1 is wrong"),
        ({"VLM_REPLICA": "1"}, "VLM_REPLICA: unknown"),
        ({"LAYOUT_SERVER": "yes"}, "LAYOUT_SERVER is 'yes'"),
        ({}, "no die answers"),
    ],
)
def test_the_vlms_container_ends_with_one_line_for_what_is_wrong(
    image: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wrong: dict[str, str],
    said: str,
):
    monkeypatch.setattr(vlm, "check_device", shut)
    image |= wrong
    assert vlm.main() == 2 and re.match(f"error: .*({said})", error := capsys.readouterr().err), error
    assert error.count("\n") == 1


def test_what_the_launcher_refuses_ends_the_container(image: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vlm.subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 4, ""))
    image |= {"VLM_CORES": "none"}
    assert vlm.main() == 4 and not status.record(image).exists()


def test_the_layout_server_begins_in_its_own_folder(image: dict[str, str]):
    """With as many threads as there are cores, on Ascend at most 8."""
    image |= {"HARDWARE": "ascend", "RAYON_NUM_THREADS": "640"}
    with pytest.raises(Became) as became:
        start_layout.main()
    assert became.value.program == "/opt/venv/vlm/bin/python" and became.value.words[1:] == ["-m", "layout_server"]
    assert Path.cwd() == folders.work(image, "layout") == Path(became.value.env["ASCEND_WORK_PATH"])
    assert became.value.env["ENVS_DIR"] == "/opt/venv"
    cores = str(min(8, len(os.sched_getaffinity(0))))
    assert {became.value.env[name] for name in thread_pools.POOLS} == {cores}


def test_the_balancer_becomes_haproxy_with_its_file(image: dict[str, str]):
    # Pods are not waited for, as replicas are.
    image |= {"VLM_PODS": "vlm", "VLM_MOST_PODS": "3", "VLM_MAX_NUM_SEQS": "200", "METRICS_PORT": "8099"}
    image |= {"VLM_HOST": "0.0.0.0", "VLM_PORT": "8000", "AWS_SECRET_ACCESS_KEY": "own"}
    with pytest.raises(Became) as became:
        balancer.main()
    assert became.value.program == "haproxy" and became.value.words[:2] == ["haproxy", "-db"]
    # Debian has it in /usr/sbin; it gets what its file names and no secrets.
    given = {
        name: value for name, value in image.items() if name in ("VLM_HOST", "VLM_PORT", "METRICS_PORT", "RUN_DIR")
    }
    assert became.value.env == {"PATH": "/usr/bin:/usr/sbin", **given}
    text = Path(became.value.words[-1]).read_text()
    assert "    maxconn 1200\n" in text and "server-template pod- 3 vlm:8000 " in text


@pytest.mark.parametrize(
    ("timeout", "failures", "mib", "expected"), [("20", "4", "3", (20, 4, 3)), ("", "", "", (30, 3, 1024))]
)
def test_the_watchdog_has_its_settings(
    image: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    timeout: str,
    failures: str,
    mib: str,
    expected: tuple[int, int, int],
):
    """It looks often whether a replica is ready, probes each in turn, and bounds CANN's logs. Compose passes what .env
    leaves out as empty."""
    done: list[object] = []

    class Watch:
        def __init__(self, index: int, url: str, model: str, timeout: float, failures: int) -> None:
            done.append((index, url, model, timeout, failures))

        def meet(self) -> None:
            done.append("meet")

        def check(self) -> None:
            done.append("check")

    class Over(Exception):
        pass

    def prune(env: object, limit: int) -> int:
        done.append(limit)
        raise Over

    now = iter([0.0, 0.0, 0.9, 1.1])
    monkeypatch.setattr(watchdog, "Watch", Watch)
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(watchdog.time, "sleep", done.append)
    monkeypatch.setattr(folders, "prune", prune)
    image |= {"VLM_REPLICAS": "2", "VLM_REPLICA_PORT": "8100", "VLM_MODEL_NAME": "m", "ASCEND_LOG_MIB": mib}
    image |= {"WATCHDOG_INTERVAL_S": "1", "WATCHDOG_TIMEOUT_S": timeout, "WATCHDOG_FAILURES": failures}
    with pytest.raises(Over):
        watchdog.main()
    seconds, times, kept = expected
    watches = [(index, f"http://127.0.0.1:{8100 + index}", "m", seconds, times) for index in range(2)]
    assert done == [*watches, 0.5, "meet", "meet", 0.5, "meet", "meet", "check", "check", kept << 20]


def test_the_model_is_settled_until_the_container_ends():
    """A replica that starts again takes no weights that came meanwhile: calls for the others' model would get 404."""
    found = {"model": "PaddleOCR-VL-0.9B", "entry": "PaddleOCR-VL", "max_num_seqs": 128, "api_key": None}
    own = {"VLM_MODEL_NAME": "PaddleOCR-VL-0.9B", "VLM_MAX_NUM_SEQS": "128"}
    assert vlm.settled({}, found) == {**own, "VLM_MODEL": "PaddleOCR-VL"}
    # Named by the operator, as a folder perhaps; or the demo's, which no name brings.
    assert vlm.settled({"VLM_MODEL": "mine"}, found) == vlm.settled({}, {**found, "entry": None}) == own
    keyed = vlm.settled({"VLM_MODEL": "mine"}, {**found, "api_key": "k"})
    assert keyed == own | {"VLLM_API_KEY": "k"}, "for the watchdog"


GROUP = {"stopasgroup": "true", "killasgroup": "true"}
# Program -> what it runs, and how it is started again and ended. A server that ends with 0 is started again, as vLLM's
# API server does when its engine has died; only status 2 means that trying again is useless, of the layout server's 4
# too.
PROGRAMS = {
    "vlm": ("container.replica %(process_num)d", {"autorestart": "unexpected", "exitcodes": "2", **GROUP}),
    "parser": ("docparser", {"autorestart": "unexpected", "exitcodes": "2", **GROUP}),
    "layout": ("container.start_layout", {"autorestart": "unexpected", "exitcodes": "2,4", "startsecs": "3", **GROUP}),
    "balancer": ("container.balancer", {"autorestart": "true", "stopsignal": "USR1"}),
    "metrics": ("container.metrics", {"autorestart": "true"}),
    "watchdog": ("container.watchdog", {"autorestart": "true"}),
    # The default of 10 events would drop some where all replicas end at once.
    "guard": ("container.guard", {"events": "PROCESS_STATE_EXITED,PROCESS_STATE_FATAL", "buffer_size": "100"}),
}


def test_how_programs_are_started_again_and_ended():
    found = configparser.RawConfigParser(comment_prefixes=(";",))
    found.read((ROOT / "config/supervisor").glob("*.conf"))
    sections = {section.partition(":")[2]: dict(found[section]) for section in found.sections()}
    assert sections.keys() == PROGRAMS.keys()
    for name, (module, expected) in PROGRAMS.items():
        assert sections[name]["command"].endswith(f" -m {module}'") and expected.items() <= sections[name].items(), name
    # All end within the time that compose gives a container (stop_grace_period), the parser's as compose sets it.
    grace = {service: compose_service(service, "cpu") for service in ("vlm", "parser")}
    assert int(grace["parser"]["environment"]["PARSER_STOP_SECONDS"]) < int(grace["parser"]["stop_grace_period"][:-1])
    waits = [int(own["stopwaitsecs"]) for own in sections.values() if own.get("stopwaitsecs", "%").isdigit()]
    assert len(waits) == 3 and max(waits) < int(grace["vlm"]["stop_grace_period"][:-1])
    assert sections["parser"]["stopwaitsecs"] == "%(ENV_PARSER_STOP_SECONDS)s"
    # Of all programs the balancer is stopped first, so that replicas answer what it has in work (999 is the default).
    assert (sections["vlm"]["process_name"], sections["vlm"]["numprocs"]) == (
        "vlm-%(process_num)d",
        "%(ENV_VLM_REPLICAS)s",
    )
    assert int(sections["balancer"]["priority"]) > 999
    main = (ROOT / "config/supervisord.conf").read_text()
    assert "\nnodaemon=true\n" in main and "\nchmod=0700\n" in main and "\nfiles=%(ENV_PROGRAMS)s\n" in main


def test_the_guard_tells_giving_up_from_a_retry():
    guard = Guard({})
    assert guard.status("PROCESS_STATE_FATAL", {}, 0) == 1
    expected = pairs("processname:vlm-0 groupname:vlm from_state:RUNNING expected:1 pid:7")
    assert guard.status("PROCESS_STATE_EXITED", expected, 0) == 2
    optional = pairs("processname:layout groupname:layout from_state:RUNNING expected:1 pid:7")
    for event in ("PROCESS_STATE_EXITED", "PROCESS_STATE_FATAL"):
        assert guard.status(event, optional, 0) is None


@pytest.mark.parametrize(
    ("times", "status"),
    [((0, 5, 10, 15), 1), ((0, 5.1, 10.2, 15.3), None), ((0, 100, 101, 102), None), ((0, 100, 101, 102, 103), 1)],
)
@pytest.mark.parametrize("programs", [("vlm-0", "vlm-1"), ("metrics", "balancer")])
def test_the_guard_counts_ends_in_a_row(
    tmp_path: Path, times: tuple[float, ...], status: int | None, programs: tuple[str, ...]
):
    """Four, each at most five seconds after the one before; also of replicas, once one has answered."""
    env = {"RUN_DIR": str(tmp_path), "VLM_REPLICAS": "2"}
    supervisord.balancer_file(env).touch()
    guard = Guard(env)
    ends = [pairs(f"processname:{name} expected:0") for name in programs]
    found = [guard.status("PROCESS_STATE_EXITED", end, now) for now in times for end in ends]
    assert found == [None] * (2 * len(times) - 2) + [status] * 2


@pytest.mark.parametrize(
    ("per_die", "half", "ends", "gives_up"),
    [
        (1, "", [0, 1, 2, 3] * 4, True),
        (1, "", [0, 1, 2] * 9, False),  # the last die still loads for the first time
        (1, "", [1, 1, 1, 1, 1, 0, 2, 3], False),  # a bad die, and the others begin again
        (1, "", [1, 1, 1, 0, 2, 3, 1], True),
        (1, "first", [0, 1] * 4, True),  # another version has the other dies
        (1, "second", [2, 3] * 4, True),
        (2, "", [0, 2] * 4, True),  # the others wait for their turn
        (2, "", [0, 1] * 9, False),
    ],
)
def test_the_guard_ends_a_container_in_which_no_replica_starts(
    tmp_path: Path, per_die: int, half: str, ends: list[int], gives_up: bool
):
    """A minute between two ends, as long as an engine takes to fail: compose would wait for half an hour."""
    env = {"RUN_DIR": str(tmp_path), "VLM_REPLICAS": "4", "VLM_REPLICAS_PER_DIE": str(per_die), "VLM_HALF": half}

    def judged() -> list[int | None]:
        guard = Guard(env)
        payloads = [pairs(f"processname:vlm-{index} expected:0") for index in ends]
        return [guard.status("PROCESS_STATE_EXITED", payload, 60.0 * at) for at, payload in enumerate(payloads)]

    assert (1 in judged()) == gives_up
    supervisord.balancer_file(env).touch()
    assert 1 not in judged(), "one has answered, so each is on its own"


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
