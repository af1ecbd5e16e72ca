# SPDX-License-Identifier: Apache-2.0
"""A real cluster of three nodes: one is killed, the head is restarted, a VLM server is away. Every document is read
once, and the outputs are those of a run without faults. `bench_corpus.py faults` does it with thousands."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.corpus.conftest import Parse
from tests.support import corpus
from tests.support.paths import ROOT
from tests.support.ray_cluster import RayCluster
from tests.support.simulated_vlm import SimulatedVlm

pytestmark = [pytest.mark.server, pytest.mark.long]
LENGTHS = [1, 2, 1, 16, 3, 1, 9, 1, 12, 2, 5, 1, 1, 14, 2, 1, 4, 2, 1, 1]


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    cluster = RayCluster(nodes=2, head_cpus=1)
    yield cluster
    cluster.end()


def test_every_document_once(tmp_path: Path, parse: Parse, cluster: RayCluster, vlms: list[SimulatedVlm]) -> None:
    corpus.make(tmp_path / "in", LENGTHS)
    assert parse("--pages-per-part", 4, out="calm").returncode == 0
    for vlm in vlms:
        vlm.delay_s = 0.4  # else the run is over before the faults

    servers = [word for vlm in vlms for word in ("--vlm-url", vlm.url)]
    command = [sys.executable, str(ROOT / "scripts/parse_corpus.py"), "in", "--out", "wild", "--pages-per-part", "4"]
    command += ["--ray", cluster.address, *servers]
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **cluster.environment}) as run:

        def read(pages: int) -> None:
            """Wait until so many were read in all."""
            _wait(run, lambda: sum(len(vlm.requests) for vlm in vlms) > pages)

        read(10)
        cluster.kill_node(0)
        read(30)
        port = vlms[0].port
        vlms[0].close()
        seen = len(vlms[1].requests)
        _wait(run, lambda: len(vlms[1].requests) > seen + 20)
        vlms[0] = SimulatedVlm(port)
        vlms[0].delay_s = 0.4
        cluster.restart_head()
        cluster.start_node(1)
        _wait(run, lambda: len(vlms[0].requests) > 5)
        assert run.wait(300) == 0
    assert corpus.outputs(tmp_path / "wild") == corpus.outputs(tmp_path / "calm")
    tables = (tmp_path / "wild/corpus.parquet").rglob("*.parquet")
    assert sum(pyarrow.parquet.read_metadata(path).num_rows for path in tables) == sum(LENGTHS)


def _wait(run: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert run.poll() is None, "the run ended before the fault"
        assert time.monotonic() < deadline
        time.sleep(0.1)
