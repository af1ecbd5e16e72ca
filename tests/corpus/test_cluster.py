# SPDX-License-Identifier: Apache-2.0
"""A driver whose head was restarted does not wait for ever.

The new head has the old address, answers, and knows nothing of the run. The driver's watch notices, where Ray itself
does not end the driver before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from corpus import cluster as ray_cluster
from tests.support.paths import ROOT
from tests.support.ray_cluster import RayCluster
from tests.support.wait import WAIT_S, wait_for

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


NODE = "the driver's"


class Head:
    """A simulated head: ``nodes`` is what it answers; ``asked`` counts the questions. ``now`` is the time, in s."""

    def __init__(self) -> None:
        self.asked, self.now = 0, 0.0
        self.nodes: Callable[[], list[dict[str, Any]]] = lambda: [{"NodeID": NODE, "Alive": True}]

    def answer(self) -> list[dict[str, Any]]:
        self.asked += 1
        return self.nodes()

    def wait(self) -> None:
        """Until it was asked and its answer was taken."""
        asked = self.asked
        wait_for(lambda: self.asked > asked + 1)


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Head:
    head = Head()
    context = SimpleNamespace(get_node_id=lambda: NODE)
    monkeypatch.setattr(ray_cluster, "ray", SimpleNamespace(nodes=head.answer, get_runtime_context=lambda: context))
    monkeypatch.setattr(ray_cluster, "time", SimpleNamespace(monotonic=lambda: head.now))
    monkeypatch.setattr(ray_cluster, "CHECK_S", 0.01)
    return head


@pytest.fixture
def lost(head: Head) -> Iterator[threading.Event]:
    """Whether a watch of this head has told that the cluster is gone."""
    lost = threading.Event()
    watch = ray_cluster.Watch(lost.set)
    head.wait()
    yield lost
    watch.end()


def away() -> list[dict[str, Any]]:
    raise ConnectionError("the head is away")


never = threading.Event()


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(lambda: [{"NodeID": "another", "Alive": True}], id="the head is another"),
        pytest.param(lambda: [{"NodeID": NODE, "Alive": False}], id="the node counts as dead"),
        pytest.param(away, id="the head is away"),
        pytest.param(lambda: never.wait() or [], id="no answer comes"),
    ],
)
def test_a_cluster_that_is_gone_is_told(
    head: Head, lost: threading.Event, nodes: Callable[[], list[dict[str, Any]]]
) -> None:
    asked, head.nodes = head.asked, nodes
    wait_for(lambda: head.asked > asked)
    head.now += ray_cluster.LOST_S
    assert not lost.wait(0.1), "it may be busy"
    head.now += 1
    assert lost.wait(WAIT_S)


def test_a_head_that_was_away_for_a_moment_is_not_gone(head: Head, lost: threading.Event) -> None:
    there, head.nodes = head.nodes, away
    head.wait()
    head.now += ray_cluster.LOST_S - 1
    head.nodes = there
    head.wait()
    head.now += ray_cluster.LOST_S - 1
    assert not lost.wait(0.1)


def test_nobody_is_told_after_the_end(head: Head) -> None:
    lost = threading.Event()
    watch = ray_cluster.Watch(lost.set)
    watch.end()
    head.now += ray_cluster.LOST_S + 1
    assert not lost.wait(0.1)


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
        status = driver.wait(120)
    print(f"ended by {'its watch' if status == LOST else f'Ray, with status {status}'}")
    assert status != 0
