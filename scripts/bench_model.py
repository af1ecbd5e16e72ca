#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Vision encode of a page's crops, side by side: ours, the model inside vLLM, transformers; and the share that the
unavoidable matrix products have in our time.

    scripts/bench_model.py [--device cpu|cuda|npu] [--dtype bfloat16|float32] [--layers 27] [--crops 30] [--json]

Published layer shapes, random weights. Every implementation runs in a process of its own; before anything is timed
their outputs are compared. Rounds alternate between them, and ratios are taken within a round. Status 1: outputs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from bundle.environments import ENVIRONMENTS, set_up  # noqa: E402
from bundle.errors import BundleError, exit_status  # noqa: E402
from bundle.progress import say  # noqa: E402

ENVIRONMENT = {"ours": "vlm", "in_tree": "vlm", "transformers": "reference"}
# Relative distance |a - b| / |b| of all features. bfloat16 keeps 8 bits, and the layers add their roundings up.
LIMITS = {"float32": 1e-4, "bfloat16": 5e-2}


class Child:
    """One implementation, driven by lines; see model_bench.child."""

    def __init__(self, name: str, python: Path, folder: Path, options: argparse.Namespace) -> None:
        words = ("--implementation", name, "--folder", folder, "--dtype", options.dtype, "--device", options.device,
                 "--layers", options.layers, "--clock", "processor" if options.processor_time else "wall")
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([str(python), "-m", "model_bench.child", *map(str, words)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env=environment(options))
        self.about = self.answer()

    def answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"{self.name} ended: {self.log.read_text(errors='replace')[-3000:]}")
        return json.loads(line)

    def ask(self, request: str) -> dict[str, Any]:
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def environment(options: argparse.Namespace) -> dict[str, str]:
    """A child's environment: our code, no network, the same number of threads for everyone."""
    own = {"PYTHONPATH": str(ROOT / "model_code"), "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "WARNING",
           "OMP_NUM_THREADS": str(options.threads), "TORCH_COMPILE_DISABLE": "1"}
    return {**os.environ, **own}


def python_of(name: str, options: argparse.Namespace) -> Path:
    """Interpreter of an implementation: named on the command line, or of the locked environment."""
    given = {"ours": options.vllm_python, "in_tree": options.vllm_python, "transformers": options.transformers_python}
    if given[name]:
        return given[name]
    set_up(ENVIRONMENTS[ENVIRONMENT[name]])
    return ENVIRONMENTS[ENVIRONMENT[name]].python


def module(name: str, python: Path, options: argparse.Namespace, *words: object) -> str:
    """Run one of model_bench's programs to its end; returns what it printed."""
    command = [str(python), "-m", f"model_bench.{name}", *map(str, words)]
    result = subprocess.run(command, env=environment(options), stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout


def measure(options: argparse.Namespace) -> dict[str, Any]:
    pythons = {name: python_of(name, options) for name in options.implementations}
    with tempfile.TemporaryDirectory(prefix="bench-model-") as name:
        folder = Path(name)
        # ours first: its environment knows the size rule.
        module("inputs", pythons["ours"], options, "--out", folder, "--layers", options.layers, "--crops", options.crops)
        grids = json.loads((folder / "grids.json").read_text())
        children: list[Child] = []
        try:
            for each, python in pythons.items():
                say(f"loading {each}")
                children.append(Child(each, python, folder, options))
            for child in children:
                say(f"first encode by {child.name}")
                child.ask("save")
            difference = json.loads(module("compare", pythons["ours"], options, "--folder", folder, *pythons))
            rounds = []
            for number in range(options.rounds):
                times = {child.name: child.ask("encode")["seconds"] for child in children}
                products = children[0].ask("roof")
                rounds.append({**times, "products": products["linear"] + products["attention"], "roof": products})
                say(f"round {number + 1}: " + ", ".join(f"{key} {value:.2f} s" for key, value in times.items())
                    + f", products alone {rounds[-1]['products']:.2f} s")
        finally:
            for child in children:
                child.close()
        about = {child.name: child.about for child in children}
    return report(options, grids, rounds, difference, about)


def report(options: argparse.Namespace, grids: list, rounds: list[dict], difference: dict, about: dict) -> dict[str, Any]:
    """The object that --json prints: settings, medians, and ratios taken round by round."""
    def middle(values: Any) -> float:
        return round(statistics.median(values), 4)

    others = [name for name in options.implementations if name != "ours"]
    ratios = {name: middle(one[name] / one["ours"] for one in rounds) for name in others}
    ratios["matmul_share"] = middle(one["products"] / one["ours"] for one in rounds)
    seconds = {name: middle(one[name] for one in rounds) for name in (*options.implementations, "products")}
    seconds |= {f"products_{key}": middle(one["roof"][key] for one in rounds) for key in ("linear", "attention")}
    limit = LIMITS[options.dtype]
    return {
        "device": options.device, "dtype": options.dtype, "layers": options.layers, "threads": options.threads,
        "clock": "processor time" if options.processor_time else "wall time", "rounds": len(rounds),
        "crops": len(grids), "patches": sum(rows * columns for _, rows, columns in grids), "processes": about,
        "equality": {"limit": limit, "relative_distance": difference, "holds": max(difference.values()) <= limit},
        "seconds": {"vision_encode": seconds}, "ratios": {"vision_encode": ratios},
    }


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda", "npu"), default="cpu")
    parser.add_argument("--dtype", choices=tuple(LIMITS), default="bfloat16")
    parser.add_argument("--layers", type=int, default=27, help="27: full depth; 2 for a quick run")
    parser.add_argument("--crops", type=int, default=30, help="the first N of the page's crops")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--processor-time", action="store_true", help="for a busy machine; needs --threads 1")
    parser.add_argument("--implementations", nargs="+", choices=tuple(ENVIRONMENT), default=list(ENVIRONMENT))
    parser.add_argument("--vllm-python", type=Path, help="interpreter with vLLM for that device (default: environment vlm)")
    parser.add_argument("--transformers-python", type=Path, help="interpreter with transformers >= 5")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    options = parser.parse_args(words)
    if "ours" not in options.implementations:
        parser.error("--implementations: ours must be among them, it is what the others are compared with")
    if options.processor_time and (options.threads != 1 or options.device != "cpu"):
        parser.error("--processor-time counts waiting threads as work: it needs --device cpu --threads 1")
    return options


def main(words: list[str]) -> int:
    options = parse(words)
    try:
        result = measure(options)
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(result))
    else:
        print(json.dumps(result, indent=2))
    if not result["equality"]["holds"]:
        print("error: the outputs differ by more than their limit; the times above compare nothing", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
