# SPDX-License-Identifier: Apache-2.0
"""A driver whose head was restarted does not wait for ever.

The new head has the old address, answers, and knows nothing of the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT
from tests.support.ray_cluster import RayCluster

LOST = 7
# Waits for an actor that no head knows any more, as Ray Data does.
DRIVER = f"""
import os, sys, time, ray
from corpus import cluster
cluster.LOST_S, cluster.CHECK_S = 8.0, 1.0
class Actor:
    def wait(self):
        time.sleep(3600)
with cluster.joined(sys.argv[1], 0, dashboard=False, lost=lambda: os._exit({LOST})):
    actor = ray.remote(num_cpus=0)(Actor).remote()
    print("joined", flush=True)
    ray.get(actor.wait.remote())
"""


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    cluster = RayCluster(nodes=1, head_cpus=1)
    yield cluster
    cluster.end()


@pytest.mark.long
@pytest.mark.server
def test_a_driver_of_another_head_ends(cluster: RayCluster) -> None:
    command = [sys.executable, "-c", DRIVER, cluster.address]
    env = {**os.environ, **cluster.environment, "PYTHONPATH": str(ROOT / "operations")}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        lines = iter(driver.stdout.readline, "")
        assert any("joined" in line for line in lines), "the driver ended before it had joined"
        time.sleep(5)
        assert driver.poll() is None, "it stays while the head is there"
        cluster.restart_head()
        # Ray itself ends some drivers before we notice.
        assert driver.wait(120) != 0
