#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A corpus on a real Ray cluster of this machine with simulated VLM servers: rate by nodes, memory, and faults.

    PYTHONPATH=.:workshop .venvs/corpus/bin/python workshop/benchmarks/bench_corpus.py nodes|memory|faults
                           [--documents N] ...

Raylets are real processes, layout is real, the VLM answers after a fixed time. So the figures show what the tool and
Ray do; they say nothing of an NPU.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet

from tests.support import corpus
from tests.support.paths import ROOT
from tests.support.ray_cluster import RayCluster
from tests.support.simulated_vlm import SimulatedVlm, default_answer

TOOL = ROOT / "scripts/parse_corpus.py"


class Run:
    """One run of the tool; ``seconds`` and ``status`` once it has ended."""

    def __init__(self, cluster: RayCluster, source: Path, out: Path, vlms: list[SimulatedVlm]) -> None:
        urls = [word for vlm in vlms for word in ("--vlm-url", vlm.url)]
        command = [sys.executable, str(TOOL), str(source), "--out", str(out), "--ray", cluster.address, *urls]
        self.out = out
        self._began = time.monotonic()
        self._process = subprocess.Popen(command, env={**os.environ, **cluster.environment})

    def done(self) -> int:
        """Documents that are done."""
        return sum(1 for _ in (self.out / "_corpus/done").rglob("*.json"))

    def wait_for(self, documents: int) -> None:
        while self._process.poll() is None and self.done() < documents:
            time.sleep(0.5)

    def end(self) -> tuple[int, float]:
        """Exit status, and seconds from start to end."""
        return self._process.wait(), time.monotonic() - self._began

    @property
    def running(self) -> bool:
        return self._process.poll() is None


def pages_in(out: Path) -> int:
    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in (out / "corpus.parquet").rglob("*.parquet"))


@contextlib.contextmanager
def vlms(count: int, delay_s: float, slots: int | None = None) -> Iterator[list[SimulatedVlm]]:
    """Servers that take ``delay_s`` for a block and compute ``slots`` blocks at once; further ones wait."""
    started = [SimulatedVlm() for _ in range(count)]
    for vlm in started:
        if slots is None:
            vlm.delay_s = delay_s
        else:
            vlm.answer = after(delay_s, threading.Semaphore(slots))
    try:
        yield started
    finally:
        for vlm in started:
            vlm.close()


def after(delay_s: float, slots: threading.Semaphore) -> Callable[[dict, int], str]:
    def answer(request: dict, number: int) -> str:
        with slots:
            time.sleep(delay_s)
        return default_answer(request, number)

    return answer


@contextlib.contextmanager
def cluster(nodes: int) -> Iterator[RayCluster]:
    """A head without cores and ``nodes`` nodes with one each."""
    made = RayCluster(nodes=nodes, head_cpus=0)
    try:
        yield made
    finally:
        made.end()


# What bounds the rate -> seconds of a block, and blocks that a VLM server computes at once (None: any number).
BOUNDS: dict[str, tuple[float, int | None]] = {"cores": (0.05, None), "waiting": (2.0, None), "servers": (1.0, 4)}


def by_nodes(options: argparse.Namespace, folder: Path) -> None:
    """The middle half of each run: pages and the machine's busy cores, everything on it counted."""
    corpus.make(folder / "in", [4] * options.documents)
    for bound in options.bound:
        delay, slots = BOUNDS[bound]
        for nodes in (1, 2, 3):
            with cluster(nodes) as ray, vlms(2, delay, slots) as servers:
                run = Run(ray, folder / "in", folder / f"out-{bound}-{nodes}", servers)
                run.wait_for(options.documents // 4)
                began, first, busy = time.monotonic(), run.done(), busy_seconds()
                run.wait_for(options.documents * 3 // 4)
                seconds, pages = time.monotonic() - began, 4 * (run.done() - first)
                cores = (busy_seconds() - busy) / seconds
                status, whole = run.end()
            print(
                f"bound by {bound}, {nodes} nodes: {pages / seconds:.2f} pages/s, {cores:.2f} of {os.cpu_count()} "
                f"cores busy, at most {[vlm.max_in_flight for vlm in servers]} calls at once; {whole:.0f} s in all, "
                f"status {status}",
                flush=True,
            )


def busy_seconds() -> float:
    """CPU seconds that the machine's cores have worked (proc(5), the first line of /proc/stat)."""
    user, nice, system, _, _, interrupts, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def memory(options: argparse.Namespace, folder: Path) -> None:
    corpus.make(folder / "in", corpus.lengths(options.documents, options.most))
    with cluster(3) as ray, vlms(2, options.delay) as servers:
        run = Run(ray, folder / "in", folder / "out", servers)
        watched(ray, run, servers)
        status, seconds = run.end()
    pages = pages_in(folder / "out")
    print(f"{pages} pages in {seconds:.0f} s, {pages / seconds:.2f} pages/s, status {status}", flush=True)


def watched(ray: RayCluster, run: Run, servers: list[SimulatedVlm]) -> None:
    threading.Thread(target=watch, args=(ray, run, servers), daemon=True).start()


def watch(ray: RayCluster, run: Run, servers: list[SimulatedVlm]) -> None:
    """Print the memory of each node, and of the run's own processes, every half minute."""
    while run.running:
        time.sleep(30)
        nodes = [sum(map(resident, ray.processes(number))) for number in list(ray.nodes) if number in ray.nodes]
        asked = sum(len(vlm.requests) for vlm in servers)
        for vlm in servers:
            del vlm.requests[:-1]  # pictures; they are this program's memory, not the tool's
        mib = " ".join(f"{node >> 20}" for node in nodes)
        print(f"{run.done()} documents, nodes {mib} MiB, driver {driver() >> 20} MiB ({asked} calls since)", flush=True)


def resident(pid: int) -> int:
    """Bytes that a process has for itself (PSS counts shared pages by their share)."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return 0


def driver() -> int:
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"corpus.driver" in path.read_bytes():
                found += resident(int(path.parent.name))
    return found


def faults(options: argparse.Namespace, folder: Path) -> None:
    corpus.make(folder / "in", corpus.lengths(options.documents, options.most))
    with cluster(3) as ray, vlms(2, options.delay) as servers:
        calm = Run(ray, folder / "in", folder / "calm", servers)
        watched(ray, calm, servers)
        status, seconds = calm.end()
        print(f"without faults: status {status}, {seconds:.0f} s", flush=True)
        run = Run(ray, folder / "in", folder / "wild", servers)
        watched(ray, run, servers)
        run.wait_for(options.documents // 8)
        ray.kill_node(0)
        print(f"a node killed after {run.done()} documents", flush=True)
        run.wait_for(options.documents // 4)
        port = servers[0].port
        servers[0].close()
        print(f"one VLM server away for a minute after {run.done()} documents", flush=True)
        time.sleep(60)
        servers[0] = SimulatedVlm(port)
        servers[0].delay_s = options.delay
        ray.start_node(0)
        run.wait_for(options.documents // 2)
        print(f"the head restarted after {run.done()} documents", flush=True)
        ray.restart_head()
        for number in range(3):
            ray.start_node(number)
        status, seconds = run.end()
        print(f"with faults: status {status}, {seconds:.0f} s", flush=True)
    ours, theirs = corpus.outputs(folder / "wild"), corpus.outputs(folder / "calm")
    print(
        f"{len(ours)} outputs, equal to those without faults: {ours == theirs}; {pages_in(run.out)} pages", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("nodes", "memory", "faults"))
    parser.add_argument("--documents", type=int, default=120)
    parser.add_argument("--most", type=int, default=300, help="pages of the longest document")
    parser.add_argument("--bound", nargs="+", choices=BOUNDS, default=list(BOUNDS), help="for nodes")
    parser.add_argument("--delay", type=float, default=0.05, help="seconds that the VLM takes for a block")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-corpus-") as folder:
        {"nodes": by_nodes, "memory": memory, "faults": faults}[options.what](options, Path(folder))


if __name__ == "__main__":
    main()
