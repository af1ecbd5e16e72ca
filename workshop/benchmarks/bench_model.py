# SPDX-License-Identifier: Apache-2.0
"""Compare three implementations of PaddleOCR-VL: ours, the model inside vLLM, transformers.

    .venvs/tools/bin/python workshop/benchmarks/bench_model.py [--device cpu|cuda|npu] [--dtype bfloat16|float32]
                           [--layers 27] [--crops 30] [--parts vision_encode language preprocess] [--json]

It times the vision encode of a page's crops, with the share that the unavoidable matrix products have in our time;
prefill and decoding of the language model; and image processing. The layer shapes are the published ones, the weights
are random. Each implementation runs in a process and an environment of its own, which is made if it is missing. Rounds
alternate between the implementations, and ratios (how many times as fast ours is) are taken within a round. If results
differ, no ratio is given and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bundle.progress import say
from model_bench.implementations import ENVIRONMENT, Child, environment, interpreter, program
from tool_errors import ToolError

PARTS = ("vision_encode", "language", "preprocess")
# Layers of the published language model; --layers beyond that are the tower's.
TEXT_LAYERS = 18
# How far results may be apart, by model_bench.compare. bfloat16 keeps 8 bits, and the layers add their roundings up;
# tokens that are nearly as likely change places there. Pixel values are equal bit for bit.
LIMITS = {
    "float32": {"features": 1e-4, "logprobs": 1e-3, "tokens": 0.0},
    "bfloat16": {"features": 5e-2, "logprobs": 0.1, "tokens": 1.0},
}
# Image processing takes tenths of a second: more rounds cost nothing.
LEAST_PREPROCESS = 5
# One run: seconds of each thing timed, by implementation ("products": the matrix products alone).
Round = dict[str, dict[str, float]]


class Bench:
    """What the parts of a run share: options, interpreters, a folder for files."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        given = {
            "ours": options.vllm_python,
            "in_tree": options.vllm_python,
            "transformers": options.transformers_python,
        }
        self.pythons = {name: interpreter(name, given[name]) for name in options.implementations}
        self.about: dict[str, Any] = {}
        self.apart: dict[str, dict[str, float]] = {}

    def program(self, module: str, *words: object) -> str:
        # In the environment of our implementation, which knows the rule for image sizes.
        return program(self.pythons["ours"], module, *words, threads=self.options.threads)

    @contextmanager
    def children(self, part: str, module: str, names: list[str], *words: object) -> Iterator[list[Child]]:
        """Start a process for each implementation; all are ended at the end."""
        running: list[Child] = []
        try:
            for name in names:
                say(f"{part}: loading {name}")
                running.append(
                    Child(
                        name,
                        self.pythons[name],
                        module,
                        [*words, "--folder", self.folder],
                        self.folder / f"{part}.{name}.log",
                        environment(name, self.options.threads),
                    )
                )
            self.about[part] = {child.name: child.about for child in running}
            yield running
        finally:
            for child in running:
                child.close()

    def compare(self, part: str, what: str, names: list[str]) -> None:
        if len(names) > 1:
            self.apart[f"{part}.{what}"] = json.loads(
                self.program("compare", "--folder", self.folder, "--what", what, *names)
            )

    def clock(self) -> str:
        return "processor" if self.options.processor_time else "wall"


def vision_encode(bench: Bench) -> list[Round]:
    """Time tower and projector; the features of the first round are compared. A few crops go before it as a warm-up."""
    options = bench.options
    bench.program("inputs", "--out", bench.folder, "--layers", options.layers, "--crops", options.crops)
    words = ("--dtype", options.dtype, "--device", options.device, "--layers", options.layers, "--clock", bench.clock())
    rounds = []
    with bench.children("vision_encode", "child", list(bench.pythons), *words) as children:
        for child in children:
            child.ask("warm")
        for number in range(options.rounds):
            times: dict[str, float] = {}
            for child in children:
                times[child.name] = child.ask("encode" if number else "save")["seconds"]
                say(f"vision encode, round {number + 1}: {child.name} {times[child.name]:.2f} s")
            products = children[0].ask("roof")
            rounds.append(
                {
                    "vision_encode": {
                        **times,
                        **{f"products_{name}": value for name, value in products.items()},
                        "products": sum(products.values()),
                    }
                }
            )
            say(f"vision encode, round {number + 1}: products alone {sum(products.values()):.2f} s")
        bench.compare("vision_encode", "features", list(bench.pythons))
    return rounds


def language(bench: Bench) -> list[Round]:
    options, model = bench.options, bench.folder / "model"
    depth = ("--text-layers", min(options.layers, TEXT_LAYERS), "--vision-layers", 1)
    bench.program("checkpoint", "--out", model, *depth, "--weights")
    words = ("--model", model, "--dtype", options.dtype, "--device", options.device, "--clock", bench.clock())
    rounds = []
    with bench.children("language", "language", list(bench.pythons), *words) as children:
        for child in children:
            child.ask("save")
        for what in ("logprobs", "tokens"):
            bench.compare("language", what, list(bench.pythons))
        for number in range(options.rounds):
            times = {child.name: child.ask("run") for child in children}
            rounds.append(
                {what: {name: answer[what] for name, answer in times.items()} for what in ("prefill", "decode")}
            )
            for what, values in rounds[-1].items():
                said = ", ".join(f"{name} {value:.2f} s" for name, value in values.items())
                say(f"{what}, round {number + 1}: {said}")
    return rounds


def preprocess(bench: Bench) -> list[Round]:
    # The in-tree model's image processor is code of the published checkpoint, which is not here.
    names = [name for name in bench.pythons if name != "in_tree"]
    rounds = []
    with bench.children("preprocess", "preprocess", names, "--clock", bench.clock()) as children:
        for child in children:
            child.ask("save")
        bench.compare("preprocess", "features", names)
        for _ in range(max(LEAST_PREPROCESS, bench.options.rounds)):
            rounds.append({"preprocess": {child.name: child.ask("run")["seconds"] for child in children}})
    return rounds


MEASURES = {"vision_encode": vision_encode, "language": language, "preprocess": preprocess}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-model-") as name:
        bench = Bench(options, Path(name))
        rounds = [one for part in options.parts for one in MEASURES[part](bench)]
        grids = bench.folder / "grids.json"
        sizes = json.loads(grids.read_text()) if grids.exists() else []
    return {**settings(options, sizes), "processes": bench.about, **report(options.dtype, rounds, bench.apart)}


def settings(options: argparse.Namespace, sizes: list[list[int]]) -> dict[str, Any]:
    return {
        "device": options.device,
        "dtype": options.dtype,
        "layers": options.layers,
        "threads": options.threads,
        "clock": "processor time" if options.processor_time else "wall time",
        "rounds": options.rounds,
        "crops": len(sizes),
        "patches": sum(rows * columns for _, rows, columns in sizes),
    }


def report(dtype: str, rounds: list[Round], apart: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return medians, ratios taken round by round, and whether the results agree; without agreement no ratios.

    Args:
        apart: "part.kind of result" -> {implementation: distance from ours}.
    """

    def middle(values: Any) -> float:
        return round(statistics.median(values), 4)

    limits = {key: 0.0 if key.startswith("preprocess") else LIMITS[dtype][key.partition(".")[2]] for key in apart}
    holds = all(max(values.values()) <= limits[key] for key, values in apart.items())
    seconds: dict[str, dict[str, float]] = {}
    ratios: dict[str, dict[str, float]] = {}
    for what in dict.fromkeys(name for one in rounds for name in one):
        timed = [one[what] for one in rounds if what in one]
        seconds[what] = {name: middle(one[name] for one in timed) for name in timed[0]}
        others = [name for name in timed[0] if name in ENVIRONMENT and name != "ours"]
        ratios[what] = {name: middle(one[name] / one["ours"] for one in timed) for name in others}
        if "products" in timed[0]:
            ratios[what]["matmul_share"] = middle(one["products"] / one["ours"] for one in timed)
    equality = {"holds": holds, "limit": limits, "distance": apart}
    return {"equality": equality, "seconds": seconds, "ratios": ratios if holds else {}}


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda", "npu"), default="cpu")
    parser.add_argument("--dtype", choices=tuple(LIMITS), default="bfloat16")
    parser.add_argument("--layers", type=int, default=27, help="27: full depth; 2 for a quick run")
    parser.add_argument("--crops", type=int, default=30, help="the first N of the page's crops")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--processor-time", action="store_true", help="for a busy machine; needs --threads 1")
    parser.add_argument("--implementations", nargs="+", choices=tuple(ENVIRONMENT), default=list(ENVIRONMENT))
    parser.add_argument(
        "--vllm-python", type=Path, help="interpreter with vLLM for that device (default: environment vlm)"
    )
    parser.add_argument("--transformers-python", type=Path, help="interpreter with transformers >= 5")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    options = parser.parse_args(words)
    if "ours" not in options.implementations:
        parser.error("--implementations: ours must be among them, it is what the others are compared with")
    if options.processor_time and (options.threads != 1 or options.device != "cpu"):
        parser.error("--processor-time counts waiting threads as work: it needs --device cpu --threads 1")
    if min(options.layers, options.crops, options.rounds, options.threads) < 1:
        parser.error("--layers, --crops, --rounds and --threads are 1 or more")
    return options


def main(words: list[str]) -> int:
    options = parse(words)
    try:
        result = measure(options)
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result, indent=None if options.json else 2))
    releases = {one["torch"].partition("+")[0] for part in result["processes"].values() for one in part.values()}
    if len(releases) > 1:
        print(
            f"warning: the implementations run different releases of torch: {', '.join(sorted(releases))}",
            file=sys.stderr,
        )
    if not result["equality"]["holds"]:
        print("error: the results differ by more than their limits; the times compare nothing", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
