# SPDX-License-Identifier: Apache-2.0
"""The weights of an exported model, in the environment `parser`.

python -m demo_training.layout.unexport MODEL_DIR OUT.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import paddle

from .inference_graph import LayoutGraph


def weights(model_dir: Path) -> dict[str, np.ndarray]:
    """By the names that ``fold`` gives them. To be called before anything else builds layers in this process.

    The exported file has no names of ours: it holds the values in the order of those that Paddle gave to the layers,
    as text, which are the same in every process that builds the graph first.
    """
    names = [name for name, _ in sorted(LayoutGraph().state_dict().items(), key=lambda item: item[1].name)]
    stored = paddle.jit.load(str(model_dir / "inference")).state_dict()
    if len(stored) != len(names):
        raise ValueError(f"{model_dir} holds {len(stored)} parameters; expected {len(names)}")
    return {name: stored[f"param_{index}"].numpy() for index, name in enumerate(names)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arrays: dict[str, Any] = {**weights(arguments.model_dir)}
    np.savez(arguments.out, **arrays)


if __name__ == "__main__":
    main()
