# SPDX-License-Identifier: Apache-2.0
"""What runs in the images beside the services: replicas, balancer, metrics, watchdog, dies. What starts and ends
them is in test_supervision.py."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import cgroup
import npu_smi
from container import balancer, layout, metrics, replica, replicas, supervisord, take_half, watchdog
from tests.support.paths import ROOT
from tests.support.processes import child_environment
from tests.support.recorded_npu_smi import SAMPLES, devices
from tests.support.simulated_http import JsonHandler, SimulatedServer
from tool_errors import UsageError


def test_one_replica_for_each_die(tmp_path: Path):
    dev = devices(tmp_path, 0, 1, 2, 10)
    assert npu_smi.device_numbers(dev) == [0, 1, 2, 10]
    assert replicas.count({"HARDWARE": "ascend"}, dev) == 4
    assert replicas.count({"HARDWARE": "ascend", "VLM_REPLICAS": "2"}, dev) == 2
    assert (
        replicas.count({"HARDWARE": "cpu"}, dev) == 1 and replicas.count({"HARDWARE": "cpu", "VLM_REPLICAS": "3"}) == 3
    )
    assert replicas.count({"HARDWARE": "cpu", "VLM_REPLICAS": "16", "VLM_REPLICAS_PER_DIE": "4"}) == 64


def test_a_die_that_was_left_out_costs_its_replicas_only(tmp_path: Path):
    """VLM_REPLICAS may name all dies of the node; scripts/select_npus.sh left one out."""
    dev = devices(tmp_path, 0, 2)
    env = {"HARDWARE": "ascend", "VLM_REPLICAS": "3", "NPU_MISSING": "1"}
    assert replicas.count(env, dev) == 2 and replicas.count({**env, "VLM_REPLICAS_PER_DIE": "2"}, dev) == 4
    assert replicas.count({**env, "VLM_REPLICAS": "1"}, dev) == 1


@pytest.mark.parametrize(
    ("env", "dies", "message"),
    [
        ({"HARDWARE": "cpu", "VLM_REPLICAS": "0"}, (), "VLM_REPLICAS is '0'; expected a whole number from 1 to 64"),
        ({"HARDWARE": "cpu", "VLM_REPLICAS": "two"}, (), "VLM_REPLICAS is 'two'"),
        ({"HARDWARE": "ascend"}, (), "no /dev/davinci"),
        ({"HARDWARE": "ascend", "VLM_REPLICAS": "3"}, (0, 1), "NPU_IDS gives 2 dies"),
        ({"HARDWARE": "cpu", "VLM_REPLICAS": "65"}, (), "VLM_REPLICAS is '65'"),
        ({"HARDWARE": "cpu", "VLM_REPLICAS": "13", "VLM_REPLICAS_PER_DIE": "5"}, (), "makes 65 replicas; .* most 64"),
    ],
)
def test_replicas_that_make_no_sense(tmp_path: Path, env: dict[str, str], dies: tuple[int, ...], message: str):
    with pytest.raises(UsageError, match=message):
        replicas.count(env, devices(tmp_path, *dies))


def test_a_replica_gets_its_port_and_its_die(tmp_path: Path):
    env = {"HARDWARE": "ascend", "VLM_REPLICAS": "2", "VLM_PORT": "8000", "VLM_REPLICA_PORT": "8100"}
    assert replicas.environment(env, 1, devices(tmp_path, 0, 1)) == {
        "VLM_PORT": "8101",
        "VLM_HOST": "127.0.0.1",
        "ASCEND_RT_VISIBLE_DEVICES": "1",
    }
    (tmp_path / "davinci1").unlink()
    assert "ASCEND_RT_VISIBLE_DEVICES" not in replicas.environment(env, 0, tmp_path)
    local = {"HARDWARE": "cpu", "VLM_REPLICAS": "1", "VLM_PORT": "9000", "VLM_REPLICA_PORT": ""}
    assert replicas.environment(local, 0) == {"VLM_PORT": "9000"}


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n", 3),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n", 4),
        ("memory.max", "max\n", None),
    ],
)
def test_what_the_kernel_ended_for_want_of_memory(tmp_path: Path, file: str, text: str, found: int | None):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert cgroup.oom_kills(tmp_path) == found


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "350000 100000"}, 3),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "1600000 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
    ],
)
def test_cores_are_those_that_the_container_may_use(monkeypatch, tmp_path: Path, files: dict[str, str], cores: int):
    """A quota leaves all cores to be seen."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert cgroup.cores(tmp_path) == cores


def test_the_balancer_lists_every_replica():
    text = balancer.of_replicas(balancer.TEMPLATE.read_text(), [8100, 8101], 16)
    assert "    server replica-0 127.0.0.1:8100\n    server replica-1 127.0.0.1:8101\n" in text
    assert not any(place in text for place in balancer.PLACES)
    with pytest.raises(ValueError, match="exactly once"):
        balancer.of_replicas("backend replicas\n", [8100], 16)


def test_each_time_limit_of_the_balancer_holds_what_it_is_for():
    """A client's wait is longer than the balancer's for a replica, and that longer than the parser's own."""
    text = balancer.TEMPLATE.read_text()
    limits = {name: int(seconds) for name, seconds in re.findall(r"^ +timeout ([\w-]+) (\d+)s$", text, re.MULTILINE)}
    schema = json.loads((ROOT / "common/declared_settings/settings.schema.json").read_text())["properties"]
    assert limits["client"] > limits["server"] > float(schema["PARSER_VLM_TIMEOUT_S"]["default"])
    assert take_half.DRAIN_SECONDS == limits["server"]
    assert limits["queue"] < limits["server"] and limits["http-request"] < limits["server"]
    # One more try, at another replica, for what may be sent again; a hard stop before supervisord's own.
    assert re.search(r"^ +option redispatch 1$", text, re.MULTILINE) and re.search(r"^ +retries 1$", text, re.MULTILINE)
    assert set(re.findall(r"retry-on (.*)$", text, re.MULTILINE)) == {"conn-failure empty-response 502 503"}
    stops = int(re.findall(r"hard-stop-after (\d+)s", text)[0])
    assert stops < int(re.findall(r"stopwaitsecs=(\d+)", (ROOT / "config/supervisor/balancer.conf").read_text())[0])
    assert "default-server check inter 3s fastinter 1s fall 3 rise 1\n" in text
    assert (
        "\n    server metrics 127.0.0.1:${METRICS_PORT}\n" in text
        and "use_backend metrics if { path /metrics }" in text
    )


@pytest.mark.parametrize(("replicas", "seqs", "expected"), [(1, 16, 512), (16, 128, 4096), (64, 128, 16384)])
def test_connections_follow_from_replicas_and_their_requests(replicas: int, seqs: int, expected: int):
    text = balancer.of_replicas(balancer.TEMPLATE.read_text(), list(range(8100, 8100 + replicas)), seqs)
    assert re.findall(r"^    maxconn (\d+)$", text, re.MULTILINE) == [str(expected)]


PAGE = (
    "# HELP vllm:requests_total Requests.\n# TYPE vllm:requests_total counter\n"
    'vllm:requests_total{model_name="m",reason="a b"} 3.0\n'
    "# HELP vllm:requests_created Requests.\n# TYPE vllm:requests_created gauge\n"
    'vllm:requests_created{model_name="m",reason="a b"} 1.7636e+09\n'
    "# HELP vllm:running Running \\\\ now.\n# TYPE vllm:running gauge\n"
    'vllm:running{path="a\\\\b\\"c"} 1.2345678901e+10\n'
    "# HELP vllm:wait Waiting.\n# TYPE vllm:wait histogram\n"
    'vllm:wait_bucket{le="0.1"} 1.0\nvllm:wait_bucket{le="+Inf"} 2.0\nvllm:wait_count 2.0\nvllm:wait_sum 0.5\n'
)


def merged(pages: dict[str, str | None]) -> str:
    """The page that Prometheus gets for these pages of replicas."""
    families = {
        name: None if page is None else list(text_string_to_metric_families(page)) for name, page in pages.items()
    }
    collector = SimpleNamespace(collect=lambda: metrics.merge(families))
    return generate_latest(collector).decode()


def test_metrics_of_all_replicas_are_one_valid_page():
    lines = merged({"0": PAGE, "1": PAGE, "2": None}).splitlines()
    assert 'vlm_replica_up{replica="0"} 1.0' in lines and 'vlm_replica_up{replica="2"} 0.0' in lines
    assert lines.count("# TYPE vllm:requests_total counter") == 1 and lines.count("# HELP vllm:wait Waiting.") == 1
    assert 'vllm:requests_total{model_name="m",reason="a b",replica="1"} 3.0' in lines
    assert 'vllm:wait_sum{replica="0"} 0.5' in lines
    # All lines of a family stand together, as the format demands.
    waits = [index for index, line in enumerate(lines) if "vllm:wait" in line]
    assert waits == list(range(waits[0], waits[0] + 2 + 2 * 4))


@pytest.mark.parametrize(("missing", "count"), [("", 0), ("5", 1), ("5,6", 2)])
def test_dies_that_are_missing_are_counted(monkeypatch: pytest.MonkeyPatch, missing: str, count: int):
    env = {"NPU_MISSING": missing, "VLM_REPLICAS": "3", "VLM_REPLICA_PORT": "8100", "VLM_HALF": "first"}
    monkeypatch.setattr(os, "environ", {**env, "RUN_DIR": "/nowhere"})
    monkeypatch.setattr(cgroup, "oom_kills", lambda: 4)
    monkeypatch.setattr(metrics, "fetch", lambda url: [] if url.endswith(":8101") else None)
    families = {family.name: family.samples for family in metrics.Replicas().collect()}
    assert [sample.value for sample in families["vlm_dies_missing"]] == [count]
    assert [sample.value for sample in families["vlm_oom_kills"]] == [4]
    up = {sample.labels["replica"]: sample.value for sample in families["vlm_replica_up"]}
    assert up == {"0": 0, "1": 1}, "the other half belongs to another container"


def test_nothing_of_a_replicas_page_is_lost_or_renamed():
    """What a replica says comes out line for line, with one label more."""
    lines = merged({"0": PAGE}).splitlines()[3:]
    without = [line.replace('{replica="0"}', "").replace(',replica="0"}', "}") for line in lines]
    assert without == PAGE.splitlines()


@pytest.mark.server
@pytest.mark.parametrize(
    ("body", "missing", "found"),
    [
        (PAGE.encode(), 0, 4),
        (PAGE.encode(), 9, None),
        (b"# TYPE \x1e\t", 0, None),
        (b"<html>no metrics</html>\n", 0, None),
    ],
)
def test_only_a_whole_page_of_metrics_counts_as_an_answer(body: bytes, missing: int, found: int | None):
    """`missing` bytes never come: the replica ends while it answers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) + missing))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        families = metrics.fetch(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert (families and len(families)) == found
    assert metrics.fetch(f"http://127.0.0.1:{server.server_port}") is None


# Writes a title over its arguments and the beginning of its environment, as vLLM's engine does by way of setproctitle.
TITLED = """
import sys, time
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
begin, end = int(fields[45]), int(fields[48]) - 8  # arg_start and env_end of proc(5)
with open("/proc/self/mem", "r+b", buffering=0) as memory:
    memory.seek(begin)
    memory.write(sys.argv[1].encode().ljust(end - begin, b"\\0"))
print("titled", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("title", "run_dir", "folder", "ours"),
    [
        ("VLLM::EngineCore", "own", "own/replicas/0/work", True),
        ("VLLM::EngineCore", "own", "other/replicas/0/work", False),
        ("other", "own", "own/replicas/0/work", False),
        ("", "own", "own/replicas/0/work", True),
        ("", "other", "own/replicas/0/work", False),
    ],
)
def test_what_is_left_of_a_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str, run_dir: str, folder: str, ours: bool
):
    """An orphaned engine is found though its environment cannot be read; processes of others in the group are not."""
    monkeypatch.setenv("RUN_DIR", str(tmp_path / "own"))
    monkeypatch.delenv("STATE_DIR", raising=False)
    (tmp_path / folder).mkdir(parents=True)
    code = TITLED if title else "import time; print('titled', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code, title],
        cwd=tmp_path / folder,
        stdout=subprocess.PIPE,
        process_group=0,
        env={"RUN_DIR": str(tmp_path / run_dir), "LAST": "kept"},
    )
    try:
        assert process.stdout and process.stdout.readline() == b"titled\n"
        assert replica.processes_of_group(process.pid) == ([process.pid] if ours else [])
    finally:
        process.kill()
        process.communicate()


class SimulatedLayout(SimulatedServer):
    """The pages of model_code/layout_server that its container reads; `failed` is what they are after its device is."""

    failed = False

    def handler(self) -> type[JsonHandler]:
        outer = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                if self.path == "/metrics":
                    return self.text(200, "# TYPE layout_waiting_pages gauge\nlayout_waiting_pages 3.0\n")
                if outer.failed:
                    return self.text(503, "the device failed")
                self.reply(200, {"model": "a" * 64, "device": "npu:3", "batch": 4})

        return Handler


@pytest.mark.server
def test_the_layout_server_of_a_container(tmp_path: Path):
    server = SimulatedLayout()
    own = {"LAYOUT_SERVER": "1", "LAYOUT_PORT": str(server.port), "LAYOUT_DEVICE": "npu"}
    env = {**own, "RUN_DIR": str(tmp_path)}
    up = {"up": True, "ended": False, "device": "npu:3", "batch": 4, "waiting": 3, "detail": ""}
    assert layout.describe(env) == up
    assert "GET http://127.0.0.1" in (told := layout.pages(env)) and '"device": "npu:3"' in told and "3.0" in told
    server.failed = True
    failed = up | {"up": False, "device": "npu", "batch": None, "detail": "HTTP 503: the device failed"}
    assert layout.describe(env) == failed
    server.close()
    down = layout.describe(env)
    assert down and not down["up"] and down["waiting"] is None and "refused" in down["detail"] and not down["ended"]
    supervisord.stays_away(env, "layout").touch()
    assert (layout.describe(env) or {})["ended"]
    for absent in ({}, {"LAYOUT_SERVER": "0"}, {"LAYOUT_SERVER": ""}):
        assert layout.describe(absent) is None and "LAYOUT_SERVER is not 1" in layout.pages(absent)


class Replica:
    """A simulated replica over real HTTP: `answering` says whether completions come back, `tokens` what its counter
    shows."""

    def __init__(self) -> None:
        replica = self
        self.answering, self.tokens, self.counting, self.key = True, 0, True, ""

        class Handler(http.server.BaseHTTPRequestHandler):
            def reply(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if replica.key and self.headers["Authorization"] != f"Bearer {replica.key}":
                    return self.reply(401, b"{}")
                (message,) = request["messages"]
                asked = request["max_completion_tokens"] == 1 and message["content"][0]["type"] == "image_url"
                self.reply(200 if replica.answering and asked else 500, b"{}")

            def do_GET(self) -> None:
                if self.path == "/health":
                    return self.reply(200 if replica.answering else 503, b"")
                counters = f'vllm:generation_tokens_total{{model_name="m"}} {replica.tokens}\n'
                self.reply(200, counters.encode() if replica.counting else b"process_open_fds 7\n")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def watched(tmp_path: Path, monkeypatch):
    """A simulated replica, its watch, and the list of groups that were killed."""
    replica, killed = Replica(), []
    monkeypatch.setenv("RUN_DIR", str(tmp_path))
    (tmp_path / "replica-0").write_text("4242\n")
    monkeypatch.setattr(watchdog, "processes_of_group", lambda group: [group])
    monkeypatch.setattr(watchdog.os, "kill", lambda process, signum: killed.append((process, signum)))
    yield replica, watchdog.Watch(0, replica.url, "m", timeout=5, failures=3), killed
    replica.server.shutdown()
    replica.server.server_close()


def test_a_replica_that_stands_still_is_killed(watched):
    replica, watch, killed = watched
    watch.check()
    replica.answering = False
    for _ in range(3):
        assert killed == []
        watch.check()
    watch.check()
    assert killed == [(4242, watchdog.signal.SIGKILL)]


def test_a_busy_replica_is_left_alone(watched):
    """Probes wait behind real work; as long as tokens come out, nothing hangs."""
    replica, watch, killed = watched
    watch.check()
    replica.answering = False
    for _ in range(8):
        replica.tokens += 5
        watch.check()
    assert killed == []


class Clock:
    """Steps of 40 s, as a probe that fails takes, in each of which the engine computes for ``share`` of the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hardware: str) -> None:
        self.now = self.cpu = 0.0
        monkeypatch.setenv("HARDWARE", hardware)
        monkeypatch.setattr(watchdog, "engine_cpu_s", lambda group: self.cpu)
        monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: self.now))

    def checks_until_killed(self, watch: watchdog.Watch, killed: list[object], share: float, most: int) -> int:
        for count in range(most):
            if killed:
                return count
            self.now, self.cpu = self.now + 40, self.cpu + 40 * share
            watch.check()
        return most


@pytest.mark.parametrize(("hardware", "share", "checks"), [("cpu", 1.5, 48), ("cpu", 0.02, 4), ("ascend", 1.5, 4)])
def test_a_long_step_on_a_cpu_is_work(
    watched, monkeypatch: pytest.MonkeyPatch, hardware: str, share: float, checks: int
):
    """The counters move only when it ends. For half an hour at most; an NPU's driver that hangs may spin."""
    replica, watch, killed = watched
    clock = Clock(monkeypatch, hardware)
    watch.check()
    replica.answering = False
    assert clock.checks_until_killed(watch, killed, share, 100) == checks


def test_an_api_server_that_hangs_is_killed_while_the_engine_computes(watched, monkeypatch: pytest.MonkeyPatch):
    replica, watch, killed = watched
    clock = Clock(monkeypatch, "cpu")
    watch.check()
    replica.answering = False
    monkeypatch.setattr(watchdog, "fetch", lambda url: None)
    assert clock.checks_until_killed(watch, killed, 1.5, 100) == 3


def test_the_engines_cpu_time_is_without_the_api_servers(monkeypatch: pytest.MonkeyPatch):
    """And without that of a process that ends meanwhile."""
    times = {4242: 50.0, 4243: 3.0, 4244: 4.0}

    def cpu_s(process: int) -> float:
        if process not in times:
            raise ProcessLookupError
        return times[process]

    monkeypatch.setattr(watchdog, "processes_of_group", lambda group: [4242, 4243, 4244, 4245])
    monkeypatch.setattr(watchdog, "cpu_s", cpu_s)
    assert watchdog.engine_cpu_s(4242) == 7


def test_a_replica_without_counters_is_left_alone(watched):
    """VLM_ARGS=--disable-log-stats: a probe that waits behind work looks like one that hangs."""
    replica, watch, killed = watched
    watch.check()
    replica.answering = replica.counting = False
    for _ in range(8):
        watch.check()
    assert killed == []


def test_a_replica_that_is_still_loading_is_left_alone(watched):
    replica, watch, killed = watched
    replica.answering = False
    for _ in range(8):
        watch.check()
    assert killed == []


def test_a_replica_that_started_again_is_loading_again(watched, tmp_path: Path):
    replica, watch, killed = watched
    watch.check()
    replica.answering = False
    (tmp_path / "replica-0").write_text("4343\n")
    for _ in range(8):
        watch.check()
    assert killed == []


def test_a_replica_that_hangs_before_its_first_probe_is_killed(watched):
    replica, watch, killed = watched
    watch.meet()
    replica.answering = False
    for _ in range(4):
        watch.meet()
        watch.check()
    assert killed == [(4242, watchdog.signal.SIGKILL)]


def test_a_replica_with_a_key_is_asked_with_it(watched, monkeypatch: pytest.MonkeyPatch):
    """VLM_ARGS=--api-key: without it each probe is refused before the engine sees it, so one that hangs would live."""
    replica, watch, killed = watched
    replica.key = "k"
    monkeypatch.setenv("VLLM_API_KEY", "k")
    watch.check()
    replica.answering = False
    for _ in range(4):
        watch.check()
    assert killed == [(4242, watchdog.signal.SIGKILL)]


@pytest.mark.server
@pytest.mark.parametrize("status", [200, 503])
def test_a_health_probe_asks_the_service_itself(status: int):
    """A proxy that the environment names stands between a machine and others, not between its own services."""

    class Service(SimulatedServer):
        def handler(self) -> type[JsonHandler]:
            class Handler(JsonHandler):
                def do_GET(self) -> None:
                    self.text(status, "the service's own words")

            return Handler

    service = Service()
    try:
        done = subprocess.run(
            [sys.executable, ROOT / "common/health_probe.py", f"http://127.0.0.1:{service.port}/health"],
            # Nobody listens on port 1.
            env=child_environment("no_proxy", "NO_PROXY", http_proxy="http://127.0.0.1:1"),
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        service.close()
    assert done.returncode == (0 if status == 200 else 1), done.stderr
    assert "the service's own words" in (done.stdout if status == 200 else done.stderr)


@pytest.mark.parametrize(
    ("service", "given", "sourced", "kept"),
    [
        ("vlm", None, "00", None),
        ("vlm", "1", "00", "1"),
        ("metrics", None, None, None),
        ("balancer", None, None, None),
        ("fetch_weights", None, None, None),
    ],
)
def test_cann_is_read_for_the_vlm_alone_and_without_torch_npu(
    tmp_path: Path, service: str, given: str | None, sourced: str | None, kept: str | None
):
    """Simulated: CANN's and ATB's scripts, which note what torch would load where they ask it for its C++ ABI."""
    for part in ("ascend-toolkit", "nnal/atb"):
        (tmp_path / part).mkdir(parents=True)
        # The second line as in scripts of CANN's packages: its pipeline fails.
        text = 'export SOURCED="${SOURCED}${TORCH_DEVICE_BACKEND_AUTOLOAD}"\nnumber=$(echo a | grep b | wc -l)\n'
        (tmp_path / part / "set_env.sh").write_text(text)
    env = {"SERVICE": service, "ASCEND": str(tmp_path), "HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    if given:
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = given
    done = subprocess.run(
        [ROOT / "operations/container/entrypoint.sh", "env"], env=env, capture_output=True, text=True, check=True
    )
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert (found.get("SOURCED"), found.get("TORCH_DEVICE_BACKEND_AUTOLOAD")) == (sourced, kept)


@pytest.mark.parametrize(
    ("name", "generation", "numbers", "memory"),
    [
        ("a3", "A3", [0, 1, 2], 65536),
        ("a3-26", "A3", [0, 1, 15], 65536),
        ("a2", "A2", [None, None], 32768),
        ("310p", "310P", [0, 1], 43693),
    ],
)
def test_npu_smi(name: str, generation: str, numbers: list[int | None], memory: int):
    report = npu_smi.parse((SAMPLES / f"{name}.txt").read_text())
    assert {die.generation for die in report.dies} == {generation}
    assert report.dies[-1].memory_total == memory and all(die.health == "OK" for die in report.dies)
    assert report.version.startswith("26.0." if name == "a3-26" else "25.2.")
    assert [die.number for die in report.dies] == numbers


def numbers(table: str, mapping: str | None, folder: Path, *files: int) -> list[int | None]:
    """The numbers of the dies of a table, on a node with these device files."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    text = (SAMPLES / f"{mapping}.txt").read_text() if mapping else "the command is not supported"
    report = npu_smi.listed(table, devices(folder, *files), lambda *words: npu_smi.Answer(0, text))
    assert bool(report.unnumbered) == (None in [die.number for die in report.dies])
    return [die.number for die in report.dies]


def test_cards_in_slots_are_numbered_by_the_drivers_map(tmp_path: Path):
    """NPU 2 is the second card, davinci1. Where it is not known which card is which, none gets a number."""
    table, dev = (SAMPLES / "a2-pcie.txt").read_text(), tmp_path / "dev"
    assert numbers(table, "map-a2-pcie", dev, 0, 1, 2, 3) == [0, 1, 2, 3]
    assert numbers(table, None, dev, 0, 1, 2, 3) == [None] * 4
    assert numbers(table, "map-a2", dev, 0, 1, 2, 3) == [None] * 4, "a map to other files"
    assert numbers(table, "map-a2-pcie", dev, 0, 1, 2) == [None] * 4
    # The third card is gone, its file is not: the driver may count the fourth as the third.
    rows = table.splitlines(keepends=True)
    assert numbers("".join(rows[:12] + rows[15:]), "map-a2-pcie", dev, 0, 1, 2, 3) == [None] * 3


def test_modules_keep_their_numbers_where_one_is_gone(tmp_path: Path):
    table, dev = (SAMPLES / "a2.txt").read_text(), tmp_path / "dev"
    assert numbers(table, "map-a2", dev, 0, 1) == [0, 1] == numbers(table, "map-a2", dev, 0, 1, 2)
    assert numbers(table, None, dev, 0, 1) == [None, None]


@pytest.mark.parametrize(("table", "mapping"), [("a3", "map-a3"), ("a3-26", "map-a3"), ("310p", "map-310p")])
def test_the_numbers_of_the_table_are_those_of_the_map(tmp_path: Path, table: str, mapping: str):
    """NPUs of two chips. The table has the numbers, so the map is not asked for."""
    text, known = (SAMPLES / f"{table}.txt").read_text(), npu_smi.mapping((SAMPLES / f"{mapping}.txt").read_text())
    assert numbers(text, None, tmp_path / "dev") == [known[die.npu, die.chip] for die in npu_smi.parse(text).dies]


def test_the_memory_of_the_smallest_die_in_bytes(monkeypatch: pytest.MonkeyPatch):
    """npu-smi's MB are of 2**20 bytes, and some are the system's: of 65536 torch has the figure that users report."""
    text = (SAMPLES / "a3.txt").read_text()
    monkeypatch.setattr(npu_smi, "ask", lambda *words: npu_smi.Answer(0, text))
    assert npu_smi.least_memory() == 65_452_113_920
    text = text.replace("/ 65536", "/ 32768", 1)
    assert npu_smi.least_memory() == 32 * 2**30 - npu_smi.KEPT
    text = ""
    assert npu_smi.least_memory() is None


def test_processes_on_dies_are_seen():
    text = (SAMPLES / "a3.txt").read_text() + (
        "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n"
        "+===========================+===============+====================================================+\n"
        "| 0       1                 | 2161          | python3                  | 2900                    |\n"
        "| No running processes found in NPU 1                                                            |\n"
    )
    assert npu_smi.parse(text).busy == {(0, 1)}
    text = (SAMPLES / "a3-26.txt").read_text()
    assert npu_smi.parse(text).busy == {(0, 0)}
    assert npu_smi.parse(text.replace("632268", "NA    ").replace("| NA     ", "| 71     ")).busy == {(0, 0)}


def test_no_npu_at_all():
    assert npu_smi.parse("npu-smi: command not found").dies == ()
