# SPDX-License-Identifier: Apache-2.0
"""Cores, threads and folders of the replicas in one VLM container."""

from __future__ import annotations

import configparser
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import npu_smi
import thread_pools
from container import cores, folders, replica, replicas, status
from health_probe import Probe
from tests.support.paths import ROOT
from tests.support.recorded_npu_smi import SAMPLES, devices
from tool_errors import UsageError

ASCEND = {"HARDWARE": "ascend", "VLM_REPLICAS": "16"}
A3_CORES = range(640)


@pytest.fixture
def topology(monkeypatch: pytest.MonkeyPatch):
    """Sets what `npu-smi info -t topo` prints."""

    def prints(text: str) -> None:
        monkeypatch.setattr(cores, "topology", lambda: text)

    prints("")
    return prints


@pytest.mark.parametrize(("available", "count"), [(16, 4), (7, 3), (2, 2), (5, 1)])
def test_every_core_belongs_to_one_replica(available: int, count: int):
    shares = [cores.share(range(available), count, index) for index in range(count)]
    assert sorted(core for share in shares for core in share) == list(range(available))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_more_replicas_than_cores_share():
    assert [cores.share([3, 8], 3, index) for index in range(3)] == [[3], [8], [3]]


def test_affinity_is_read_where_npu_smi_names_cores():
    found = npu_smi.affinity((SAMPLES / "topo-a2.txt").read_text())
    assert set(found) == set(range(8)) and found[0] == found[2] == list(range(144, 168)) and found[5][0] == 48
    a3 = (SAMPLES / "topo-a3.txt").read_text().splitlines()
    assert npu_smi.affinity("\n".join(a3)) == {}, "it has no column of cores"
    named = [f"{a3[0]} CPU Affinity", *(f"{line}    {die}0-{die}9" for die, line in enumerate(a3[1:], 1))]
    assert npu_smi.affinity("\n".join(named))[1] == list(range(20, 30))
    assert npu_smi.affinity("npu-smi: unknown option") == {}


def test_dies_with_the_same_cores_divide_them(tmp_path: Path, topology):
    topology((SAMPLES / "topo-a2.txt").read_text())
    dev = devices(tmp_path, *range(8))
    env = {"HARDWARE": "ascend", "VLM_REPLICAS": "8"}
    bound = [cores.of_replica(env, index, range(192), dev) for index in range(8)]
    assert bound[0] == (list(range(144, 156)), "near die 0 (npu-smi info -t topo)")
    assert bound[2][0] == list(range(156, 168))
    assert len({core for share, _ in bound for core in share}) == sum(len(share) for share, _ in bound)


def test_two_containers_of_one_server_never_share_a_core(tmp_path: Path, topology):
    """Each holds eight dies of sixteen and sees all cores; the dies' numbers keep them apart."""
    topology((SAMPLES / "topo-a3.txt").read_text())
    seen: set[int] = set()
    for begin in (0, 8):
        (tmp_path / str(begin)).mkdir()
        dev = devices(tmp_path / str(begin), *range(begin, begin + 8))
        for index in range(8):
            share, why = cores.of_replica({"HARDWARE": "ascend", "VLM_REPLICAS": "8"}, index, A3_CORES, dev)
            assert len(share) == 40 and why == f"share of die {begin + index}" and not seen & set(share)
            seen |= set(share)
    assert len(seen) == 640


def test_cores_near_a_die_that_the_container_may_not_use(tmp_path: Path, topology):
    topology((SAMPLES / "topo-a2.txt").read_text())
    share, why = cores.of_replica({"HARDWARE": "ascend"}, 0, range(64), devices(tmp_path, 0))
    assert share == [0, 1, 2, 3] and why == "share of die 0"


@pytest.mark.parametrize(
    ("dies", "allowed", "sizes"),
    [
        ([5], range(100, 108), [8]),  # a pod with 8 exclusive cores of 640
        ([5], range(40), [40]),  # just its die's part
        ([8, 9, 10, 11], range(320, 400), [20] * 4),  # a cpuset
        ([5], range(320), [20]),  # a memory node, which others may share
        ([5], range(640), [40]),
    ],
)
def test_cores_that_a_container_has_for_itself(tmp_path: Path, topology, dies: list[int], allowed, sizes: list[int]):
    (tmp_path / "online").write_text("0-639\n")
    env, dev = {"HARDWARE": "ascend", "VLM_REPLICAS": str(len(dies))}, devices(tmp_path, *dies)
    bound = [cores.of_replica(env, index, allowed, dev, tmp_path / "online")[0] for index in range(len(dies))]
    assert [len(share) for share in bound] == sizes
    assert len({core for share in bound for core in share}) == sum(sizes)


def test_own_cores_that_lie_far_from_the_die(tmp_path: Path, topology):
    """The die is near cores 144 to 167, of which the container has two."""
    topology((SAMPLES / "topo-a2.txt").read_text())
    (tmp_path / "online").write_text("0-191\n")
    env, dev = {"HARDWARE": "ascend", "SOC_VERSION": "ascend910b3"}, devices(tmp_path, 0)
    for allowed, size in (((*range(6), 144, 145), 8), (range(144, 156), 12)):
        assert len(cores.of_replica(env, 0, allowed, dev, tmp_path / "online")[0]) == size


def test_the_machines_cores_without_the_kernels_list(tmp_path: Path):
    assert cores.of_machine(tmp_path / "gone") == os.cpu_count()


def test_a_topology_that_lacks_a_die_of_ours_numbers_others(tmp_path: Path, topology):
    """Cards in slots: its NPU1 is not davinci1."""
    text = (SAMPLES / "topo-a2.txt").read_text()
    topology("".join(line for line in text.splitlines(keepends=True) if not line.startswith("NPU0 ")))
    env, dev = {"HARDWARE": "ascend", "VLM_REPLICAS": "2"}, devices(tmp_path, 0, 1)
    assert [cores.of_replica(env, index, range(192), dev)[1] for index in (0, 1)] == [
        "share of die 0",
        "share of die 1",
    ]


def test_an_operators_choice_of_cores(tmp_path: Path, topology):
    dev = devices(tmp_path, 0, 1)
    env = {"HARDWARE": "ascend", "VLM_REPLICAS": "4", "VLM_REPLICAS_PER_DIE": "2", "VLM_CORES": "0-3;8,9"}
    assert [cores.of_replica(env, index, range(16), dev)[0] for index in range(4)] == [
        [0, 1, 2, 3],
        [0, 1, 2, 3],
        [8, 9],
        [8, 9],
    ]
    assert cores.of_replica({**env, "VLM_CORES": "none"}, 0, range(16), dev) == (list(range(16)), "VLM_CORES=none")


def test_a_die_that_was_left_out_keeps_its_list_of_cores(tmp_path: Path):
    dev = devices(tmp_path, 4, 6, 7)
    env = {"HARDWARE": "ascend", "VLM_REPLICAS": "3", "VLM_CORES": "0;1;2;3", "NPU_MISSING": "5"}
    cores.check(env, range(4), dev)
    assert [cores.of_replica(env, index, range(4), dev)[0] for index in range(3)] == [[0], [2], [3]]


@pytest.mark.parametrize("text", ["0-3", "0-3;x", "0-3;", "0-3;99", "a;b"])
def test_a_choice_of_cores_that_cannot_be(tmp_path: Path, text: str, topology):
    env = {"HARDWARE": "ascend", "VLM_REPLICAS": "2", "VLM_CORES": text}
    with pytest.raises(UsageError, match=r"VLM_CORES is .*expected `auto`, `none`, or one list"):
        cores.of_replica(env, 1, range(16), devices(tmp_path, 0, 1))


def test_replicas_of_one_die_share_its_cores_and_its_number(tmp_path: Path, topology):
    dev = devices(tmp_path, 0, 1)
    env = {"HARDWARE": "ascend", "VLM_REPLICAS_PER_DIE": "4"}
    assert replicas.count(env, dev) == 8
    env["VLM_REPLICAS"] = "8"
    bound = [cores.of_replica(env, index, range(64), dev)[0] for index in range(8)]
    assert all(share == bound[index // 4 * 4] for index, share in enumerate(bound)) and bound[0] != bound[4]
    visible = [replicas.environment(env, index, dev)["ASCEND_RT_VISIBLE_DEVICES"] for index in range(8)]
    assert visible == ["0"] * 4 + ["1"] * 4


def test_replicas_of_one_core_set_on_cpu(topology):
    env = {"HARDWARE": "cpu", "VLM_REPLICAS_PER_DIE": "2"}
    assert replicas.count(env) == 2
    env["VLM_REPLICAS"] = "2"
    assert [cores.of_replica(env, index, [0, 1])[0] for index in range(2)] == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("index", "per_die", "served", "ready_at", "waited"),
    [
        (0, 1, 0, None, 0),
        (3, 1, 0, 5, 5),
        (3, 1, 0, None, 60),
        (7, 1, 0, None, 60),  # as long as any other, whatever its die
        (7, 1, 20, None, 40),
        (3, 1, 500, None, 0),  # started again: it waits for nobody
        (4, 2, 0, None, 60),  # its die's first
        (7, 2, 0, 5, 5),
        (7, 2, 0, None, 600),
        (7, 4, 700, None, 1100),  # three are before it on its die, ten minutes each
        (3, 4, 5000, None, 0),
    ],
)
def test_a_replica_waits_for_its_turn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    index: int,
    per_die: int,
    served: int,
    ready_at: int | None,
    waited: int,
):
    """On a shared die for the one before it there, else for the first of all: the dies load side by side. Turns count
    from the container's start: with a broken replica before it, one that ends and starts again serves at once."""
    now, asked = [1000.0], set[str]()

    def probe(url: str, timeout: float) -> Probe:
        asked.add(url)
        return Probe(ready_at is not None and now[0] >= 1000 + ready_at, "")

    env = {"RUN_DIR": str(tmp_path), "VLM_REPLICAS": "8", "VLM_REPLICA_PORT": "8100", "HARDWARE": "cpu"}
    env["VLM_REPLICAS_PER_DIE"] = str(per_die)
    monkeypatch.setattr(os, "environ", env)
    status.write(env)
    os.utime(status.record(env), (50_000, 50_000))
    monkeypatch.setattr(replica.time, "time", lambda: 50_000.0 + served)
    monkeypatch.setattr(replica.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(replica.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(replica, "probe", probe)
    replica.wait_for_turn(index)
    before = index - 1 if index % per_die else 0
    assert now[0] - 1000 == waited and asked <= {f"http://127.0.0.1:{8100 + before}/health"}
    status.record(env).unlink()
    assert replica.served_for(env) == 0


def test_core_sets_on_cpu_are_shares_of_what_is_there(topology):
    env = {"HARDWARE": "cpu", "VLM_REPLICAS": "2"}
    assert [cores.of_replica(env, index, range(4, 8)) for index in range(2)] == [
        ([4, 5], "a share"),
        ([6, 7], "a share"),
    ]
    assert cores.of_replica({"HARDWARE": "cpu"}, 0, range(4, 8)) == ([4, 5, 6, 7], "the only core set")


@pytest.mark.parametrize("text", ["0", "9", "two", "-1"])
def test_replicas_per_die_that_make_no_sense(text: str):
    with pytest.raises(UsageError, match="VLM_REPLICAS_PER_DIE is"):
        replicas.count({"HARDWARE": "cpu", "VLM_REPLICAS_PER_DIE": text})


@pytest.mark.parametrize(
    ("env", "bound", "omp", "rayon"),
    [
        ({"HARDWARE": "ascend"}, 40, "8", "8"),
        ({"HARDWARE": "ascend", "OMP_NUM_THREADS": "640"}, 40, "8", "8"),
        ({"HARDWARE": "ascend"}, 3, "3", "3"),
        ({"HARDWARE": "ascend", "VLM_THREADS": "20"}, 40, "20", "20"),
        ({"HARDWARE": "cpu"}, 4, None, "4"),
        ({"HARDWARE": "cpu", "OMP_NUM_THREADS": "640"}, 4, "4", "4"),
        ({"HARDWARE": "cpu", "OMP_NUM_THREADS": "2"}, 4, None, "4"),
    ],
)
def test_threads_follow_the_cores(env: dict[str, str], bound: int, omp: str | None, rayon: str):
    own = thread_pools.environment(env, bound)
    assert own.get("OMP_NUM_THREADS") == omp and own["RAYON_NUM_THREADS"] == own["OPENBLAS_NUM_THREADS"] == rayon
    assert own.get("MKL_NUM_THREADS") == (None if env["HARDWARE"] == "cpu" else omp)


def test_a_number_of_threads_that_is_none():
    with pytest.raises(UsageError, match="VLM_THREADS is '0'; expected a whole number from 1 to 1024"):
        thread_pools.environment({"VLM_THREADS": "0"}, 4)


# A simulated server: as many threads in each pool as the variables say; 640 where a variable is missing.
SERVER = """
import json, os, sys, threading
def threads(*names):
    return int(next((os.environ[name] for name in names if os.environ.get(name)), 640))
# PyTorch takes MKL's number before OpenMP's.
wanted = threads("MKL_NUM_THREADS", "OMP_NUM_THREADS") + threads("OPENBLAS_NUM_THREADS") + threads("RAYON_NUM_THREADS")
stop = threading.Event()
for _ in range(wanted):
    threading.Thread(target=stop.wait, daemon=True).start()
status = open("/proc/self/status").read()
print(json.dumps({
    "threads": int(status.split("Threads:")[1].split()[0]),
    "cores": len(os.sched_getaffinity(0)),
    "work": os.getcwd(),
    **{name: os.environ[name] for name in os.environ if name.startswith("ASCEND_")},
}), flush=True)
sys.stdin.read()
stop.set()
"""


@pytest.mark.server
def test_threads_and_folders_of_sixteen_replicas(tmp_path: Path):
    """Sixteen times the real launcher under a default of 640 threads, as a large node's base image may set it. Each
    becomes two simulated servers, as vLLM has two processes; all threads together stay far below compose's limit."""
    python = tmp_path / "envs/vlm/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nexec {sys.executable} {tmp_path}/server.py\n")
    python.chmod(0o755)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "run").mkdir()
    env = {
        **os.environ,
        "HARDWARE": "cpu",  # this machine has no dies; the shares and the folders are the same
        "ENVS_DIR": str(tmp_path / "envs"),
        "RUN_DIR": str(tmp_path / "run"),
        "STATE_DIR": str(tmp_path / "state"),
        "VLM_REPLICAS": "16",
        "VLM_THREADS": "8",
        "OMP_NUM_THREADS": "640",
        "VLM_REPLICA_PORT": "1",  # nobody listens there
    }
    code = "import container.replica as replica; replica.TURN_SECONDS = 0; replica.main()"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(index)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        for index in range(16)
    ]
    try:
        found = []
        for index, process in enumerate(started):
            assert process.stdout
            said = process.stdout.readline()
            assert said.startswith(f"replica {index}: ") and "OMP_NUM_THREADS=8" in said
            found.append(json.loads(process.stdout.readline()))
        total = sum(2 * server["threads"] for server in found)
        assert all(server["threads"] == 25 for server in found) and total * 3 < 8192
        assert len({server["work"] for server in found}) == 16
        for index, server in enumerate(found):
            assert Path(server["work"]) == folders.work(env, index) == Path(server["ASCEND_WORK_PATH"])
            for folder in (server["ASCEND_CACHE_PATH"], server["ASCEND_PROCESS_LOG_PATH"]):
                assert Path(folder).is_dir() and os.access(folder, os.W_OK)
    finally:
        for process in started:
            process.communicate("")


@pytest.mark.server
def test_the_layout_server_writes_where_a_replica_does(tmp_path: Path):
    """By the command that supervisord runs; the server is simulated. Its logs are among those that are bounded."""
    python = tmp_path / "envs/vlm/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/server.py "$@"\n')
    python.chmod(0o755)
    (tmp_path / "server.py").write_text(SERVER)
    env = {
        **os.environ,
        "OPERATIONS_PYTHON": sys.executable,
        "ENVS_DIR": str(tmp_path / "envs"),
        "RUN_DIR": str(tmp_path / "run"),
        "STATE_DIR": str(tmp_path / "state"),
        "OMP_NUM_THREADS": "1",
    }
    program = configparser.RawConfigParser()
    program.read(ROOT / "config/supervisor/layout.conf")
    command = shlex.split(program["program:layout"]["command"])
    done = subprocess.run(command, env=env, cwd="/", input="", capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["work"] == said["ASCEND_WORK_PATH"] and os.access(said["work"], os.W_OK)
    assert Path(said["ASCEND_PROCESS_LOG_PATH"]) == folders.logs(env) / "layout"


@pytest.mark.server
def test_a_wrong_choice_ends_a_replica_with_status_2(tmp_path: Path):
    env = {**os.environ, "RUN_DIR": str(tmp_path), "HARDWARE": "cpu", "VLM_REPLICAS": "1"}
    env |= {"VLM_CORES": "9999", "ENVS_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-m", "container.replica", "0"], env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2 and result.stderr.startswith("error: VLM_CORES is '9999'")
    assert len(result.stderr.splitlines()) == 1


def test_the_oldest_files_of_cann_are_removed(tmp_path: Path):
    env = {"STATE_DIR": str(tmp_path), "RUN_DIR": "/nonexistent"}
    for index in range(4):
        folder = Path(folders.make(env, index % 2)["ASCEND_PROCESS_LOG_PATH"]) / "debug/plog"
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"plog-{index}.log"
        log.write_bytes(b"x" * 100)
        os.utime(log, (index, index))
    (meta := folders.work(env, 0) / "kernel_meta").mkdir()
    (meta / "old.json").write_bytes(b"x" * 100)
    os.utime(meta / "old.json", (0, 0))
    (compiled := Path(folders.make(env, 0)["ASCEND_CACHE_PATH"]) / "kernel.o").write_bytes(b"x" * 100)
    assert folders.prune(env, 500) == 0
    with next(tmp_path.rglob("plog-0.log")).open("a"):  # its writer would go on in a file without a name
        assert folders.prune(env, 250) == 3
    assert sorted(path.name for path in tmp_path.rglob("*.log")) == ["plog-0.log", "plog-3.log"]
    assert compiled.is_file() and meta.is_dir() and not [*meta.iterdir()], "what was compiled stays, and folders"
    # The volume outlives the image: what another CANN compiled is not offered to this one, and is not kept.
    assert folders.make(env, 0)["ASCEND_CACHE_PATH"] == str(compiled.parent) and compiled.exists()
    newer = Path(folders.make({**env, "CANN_VERSION": "9.1.0"}, 0)["ASCEND_CACHE_PATH"])
    assert newer.name == "9.1.0" and [path.name for path in newer.parent.iterdir()] == ["9.1.0"]
