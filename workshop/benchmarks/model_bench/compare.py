# SPDX-License-Identifier: Apache-2.0
"""How far the implementations' results are apart, as JSON: {"other": distance from ours}.

    python -m model_bench.compare --folder DIR --what features|logprobs|tokens ours in_tree transformers

``features``: |ours - other| / |other| of all features. ``logprobs``: largest mean difference, over the prompts, of the
log-probabilities of the tokens that both hold for likely. ``tokens``: share of prompts whose answers differ.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from safetensors.torch import load_file


def features(folder: Path, names: list[str]) -> dict[str, float]:
    values = {name: load_file(folder / f"{name}.safetensors")["features"].double() for name in names}
    mine = values.pop("ours")
    if not mine.isfinite().all():
        return {"ours": math.inf}
    return {name: ((mine - value).norm() / value.norm()).item() for name, value in values.items()}


def logprobs(folder: Path, names: list[str]) -> dict[str, float]:
    answers = {name: json.loads((folder / f"{name}.json").read_text())["logprobs"] for name in names}
    mine = answers.pop("ours")

    def apart(one: dict[str, float], other: dict[str, float]) -> float:
        shared = one.keys() & other.keys()
        return sum(abs(one[token] - other[token]) for token in shared) / len(shared) if shared else math.inf

    return {name: max(map(apart, mine, theirs)) for name, theirs in answers.items()}


def tokens(folder: Path, names: list[str]) -> dict[str, float]:
    answers = {name: json.loads((folder / f"{name}.json").read_text())["tokens"] for name in names}
    mine = answers.pop("ours")
    return {name: sum(map(list.__ne__, mine, theirs)) / len(mine) for name, theirs in answers.items()}


KINDS = {"features": features, "logprobs": logprobs, "tokens": tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--what", choices=KINDS, default="features")
    parser.add_argument("implementations", nargs="+")
    arguments = parser.parse_args()
    print(json.dumps(KINDS[arguments.what](arguments.folder, arguments.implementations)))


if __name__ == "__main__":
    main()
