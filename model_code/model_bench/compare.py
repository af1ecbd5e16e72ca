# SPDX-License-Identifier: Apache-2.0
"""How far the implementations' features are apart: {"other": |ours - other| / |other|} as JSON.

python -m model_bench.compare --folder DIR ours in_tree transformers
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from safetensors.torch import load_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("implementations", nargs="+")
    arguments = parser.parse_args()
    features = {
        name: load_file(arguments.folder / f"{name}.safetensors")["features"].double()
        for name in arguments.implementations
    }
    mine = features.pop("ours")
    distances = {name: ((mine - value).norm() / value.norm()).item() for name, value in features.items()}
    print(json.dumps(distances or {"ours": 0.0 if mine.isfinite().all() else float("inf")}))


if __name__ == "__main__":
    main()
