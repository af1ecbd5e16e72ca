# SPDX-License-Identifier: Apache-2.0
"""What a page costs in the layout model alone, through PaddleX's own predictor, on Paddle and on OpenVINO.

    .venvs/parser/bin/python workshop/benchmarks/bench_layout.py MODEL_DIR [--rounds 3] [--pages 3]

Each engine has a process of its own, one thread, and the pages of a round; the engines take turns. Prints one JSON
object: processor seconds of a page (median of all rounds), of the start, and the process's peak memory. The first page
of a process is not counted. `conversion` is what making OpenVINO's graph took, which happens once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml

ENGINES = ("paddle", "openvino")


def run_one(model_dir: Path, cache: Path, engine: str, pages: int) -> dict:
    """In this process: ``{page: [CPU s], start: CPU s, peak_mib, private_mib}``."""
    from docparser.settings import Settings
    from docparser.worker import offline

    settings = Settings(cache_dir=cache, layout_engine=engine, cpu_threads=1)
    offline.prepare(settings.cache_dir)
    from docparser.page.layout_model import openvino_engine, predictor

    began = time.process_time()
    plain = {"run_mode": "paddle", "cpu_threads": 1}
    name = yaml.safe_load((model_dir / "inference.yml").read_text(encoding="utf-8"))["Global"]["model_name"]
    model = predictor(name, model_dir, openvino_engine(settings, model_dir), plain)
    start = time.process_time() - began
    page = np.random.default_rng(1).integers(0, 256, (1684, 1190, 3), np.uint8)
    seconds = []
    for _ in range(pages + 1):
        began = time.process_time()
        # Boxes alone: PaddleX cannot compute with the outlines of a random model's masks.
        list(model.predict([page], layout_shape_mode="rect"))
        seconds.append(time.process_time() - began)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "page": seconds[1:],
        "start": start,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "private_mib": int(status["RssAnon"].split()[0]) >> 10,
    }


def convert(model_dir: Path, cache: Path) -> dict:
    """Make the graph; what its process took."""
    from docparser.layout.graph import GraphCache

    began = time.monotonic()
    GraphCache(cache / "layout").find(model_dir)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": round(time.monotonic() - began, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": used.ru_maxrss >> 10,
    }


def compare(options: argparse.Namespace, cache: Path) -> dict:
    result: dict = {"conversion": convert(options.model_dir, cache)}
    runs: dict[str, list[dict]] = {engine: [] for engine in ENGINES}
    for _ in range(options.rounds):
        for engine, found in runs.items():
            command = [sys.executable, __file__, str(options.model_dir), "--one", engine, "--cache", str(cache)]
            command += ["--pages", str(options.pages)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
    for engine, found in runs.items():
        result[engine] = {
            "cpu_s_per_page": round(statistics.median(s for run in found for s in run["page"]), 3),
            "start_cpu_s": round(statistics.median(run["start"] for run in found), 1),
            "peak_mib": max(run["peak_mib"] for run in found),
            "private_mib": max(run["private_mib"] for run in found),
        }
    shares = [result[engine]["cpu_s_per_page"] for engine in ENGINES]
    return {**result, "of_paddle": round(shares[1] / shares[0], 2), "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=Path, help="a folder of a layout model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", type=int, default=3, help="pages of a round, beside the first one")
    parser.add_argument("--one", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(options.model_dir, options.cache, options.one, options.pages)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(options, Path(folder)), indent=1))


if __name__ == "__main__":
    main()
