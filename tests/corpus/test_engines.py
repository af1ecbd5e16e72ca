# SPDX-License-Identifier: Apache-2.0
"""`--engines`: the run starts a VLM server on each NPU of the cluster. The NPU is one in name only, given to a node by
hand; the server is the real one with the demo weights, on CPU cores."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray.exceptions

from corpus import engines
from tests.support.paths import DATA, python_of
from tests.support.processes import command_line
from tests.support.ray_cluster import RayCluster
from tests.tools.calls import call
from tool_errors import EnvironmentSetupError, ServiceError, UsageError


@pytest.mark.long
@pytest.mark.server
@pytest.mark.skipif(not python_of("vlm").exists(), reason="the environment vlm is missing: scripts/setup_env.sh vlm")
def test_a_page_is_read_by_a_server_that_the_run_started(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(DATA / "letter.png", tmp_path / "in")
    # RUN_DIR of the node's processes marks those that the run has started.
    cluster = RayCluster(nodes=0, head_cpus=1, resources='{"NPU": 1}', RUN_DIR=str(tmp_path / "run"), HARDWARE="cpu")
    try:
        words = ("in", "--out", "out", "--ray", cluster.address, "--engines", "1")
        done = call("parse_corpus.py", *words, cwd=tmp_path, env=cluster.environment)
        left = [pid for pid in _servers() if str(tmp_path / "run").encode() in _environment(pid)]
    finally:
        cluster.end()
    assert done.returncode == 0 and "1 of 1 document done" in done.stderr
    text = (tmp_path / "out/letter.png/letter.md").read_text()
    assert "3 September 2024" in text and "Wexcombe" in text
    assert list((tmp_path / "run/logs").glob("corpus-vlm-*.log")), "the server ran on the node"
    assert not left, "the server ends with the run"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environments of a node whose VLM server ends at once. The driver's .env is of a machine without NPU."""
    for name in ("HARDWARE", "STACK", "VLM_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(engines, "VALUES", {"HARDWARE": "cpu", "STACK": "0.23.0", "VLM_ARGS": "--x", "PATH": "/bin"})
    monkeypatch.setattr(engines, "RUN_DIR", tmp_path / "run")
    monkeypatch.setattr(engines, "ENVS_DIR", tmp_path)
    monkeypatch.setattr(engines.ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    python = tmp_path / "vlm-ascend-0.23/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 2\n")
    python.chmod(0o755)
    return tmp_path


@pytest.mark.server
def test_a_server_has_the_settings_of_the_bundle_and_the_hardware_of_its_node(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = engines.settings()
    assert "PATH" not in given
    engine = engines.Engine(given)
    told = {name: engine._env[name] for name in ("HARDWARE", "STACK", "VLM_ARGS", "VLM_REPLICAS_PER_DIE")}
    assert told == {"HARDWARE": "ascend", "STACK": "0.23.0", "VLM_ARGS": "--x", "VLM_REPLICAS_PER_DIE": "1"}
    with pytest.raises(
        ServiceError, match="the VLM server on 127.0.0.1 is not ready after -1 s; its log there is .*/run/"
    ):
        engine.serve(-1)
    engine.end()
    monkeypatch.setenv("HARDWARE", "cpu")
    bare = engines.Engine(given)
    with pytest.raises(
        EnvironmentSetupError, match=r"vlm-0.23/bin/python is missing on .*/setup_env.sh vlm-0.23 there"
    ):
        bare.serve(-1)
    bare.end()


def test_a_setting_that_no_server_would_take(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engines.VALUES, "VLM_PRECISION", "int3")
    with pytest.raises(UsageError, match="VLM_PRECISION is 'int3'"):
        engines.settings()


def test_a_server_that_ray_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def get(serving: list[object], timeout: float) -> None:
        given.append(timeout)
        raise ray.exceptions.GetTimeoutError

    monkeypatch.setattr(engines, "ray", SimpleNamespace(get=get, exceptions=ray.exceptions))
    with pytest.raises(ServiceError, match="--engines 2: Ray has not started them all within 900 s"):
        engines._roots([1, 2], 900)
    assert given == [960], "an engine's own error comes first"


def _servers() -> list[int]:
    """Processes of vLLM, whoever started them."""
    found = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in found if b"vllm" in command_line(pid).lower()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
