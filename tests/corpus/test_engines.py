# SPDX-License-Identifier: Apache-2.0
"""`--engines`: the run starts a VLM server on each NPU of the cluster. The NPU is one in name only, given to a node by
hand; the server is the real one with the demo weights, on CPU cores."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.paths import DATA, python_of
from tests.support.processes import command_line
from tests.support.ray_cluster import RayCluster
from tests.tools.calls import call


@pytest.mark.long
@pytest.mark.server
@pytest.mark.skipif(not python_of("vlm").exists(), reason="the environment vlm is missing: scripts/setup_env.sh vlm")
def test_a_page_is_read_by_a_server_that_the_run_started(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(DATA / "letter.png", tmp_path / "in")
    # RUN_DIR of the node's processes marks those that the run has started.
    cluster = RayCluster(nodes=0, head_cpus=1, resources='{"NPU": 1}', RUN_DIR=str(tmp_path / "run"))
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


def _servers() -> list[int]:
    """Processes of vLLM, whoever started them."""
    found = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in found if b"vllm" in command_line(pid).lower()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
