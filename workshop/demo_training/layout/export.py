# SPDX-License-Identifier: Apache-2.0
"""Write the Paddle inference model: ``python -m demo_training.layout.export WEIGHTS.npz OUT`` (parser environment)."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import paddle
import yaml
from paddle.static import InputSpec

from ..pages.labels import LABELS
from .inference_graph import INPUT, LayoutGraph

#: Pre-processing and names as the published model has them (PaddleX, metadata of PP-DocLayoutV2).
METADATA = {
    "mode": "paddle",
    "draw_threshold": 0.5,
    "metric": "COCO",
    "use_dynamic_shape": False,
    "Global": {"model_name": "PP-DocLayoutV2"},
    "arch": "DETR",
    "min_subgraph_size": 3,
    "Preprocess": [
        {"interp": 2, "keep_ratio": False, "target_size": [INPUT, INPUT], "type": "Resize"},
        {"mean": [0.0, 0.0, 0.0], "norm_type": "none", "std": [1.0, 1.0, 1.0], "type": "NormalizeImage"},
        {"type": "Permute"},
    ],
    "label_list": list(LABELS),
}


def export(weights: dict[str, np.ndarray], out: Path, score_power: float = 1.0) -> None:
    """Write inference.json, inference.pdiparams and inference.yml to ``out``.

    Raises ValueError where names or shapes of ``weights`` are not the graph's.
    """
    graph = LayoutGraph(score_power)
    own = {name: tuple(value.shape) for name, value in graph.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in weights.items()}
    if own != given:
        differing = sorted(set(own.items()) ^ set(given.items()))
        raise ValueError(f"weights do not fit the layout graph; differing names or shapes: {differing[:6]}")
    graph.set_state_dict({name: paddle.to_tensor(value) for name, value in weights.items()})
    graph.eval()
    inputs = [
        InputSpec([None, 2], "float32", "im_shape"),
        InputSpec([None, 3, INPUT, INPUT], "float32", "image"),
        InputSpec([None, 2], "float32", "scale_factor"),
    ]
    out.mkdir(parents=True, exist_ok=True)
    static = paddle.jit.to_static(graph, input_spec=inputs, full_graph=True)
    paddle.jit.save(static, str(out / "inference"))
    (out / "inference.yml").write_text(yaml.safe_dump(METADATA, sort_keys=False), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--score-power", type=float, default=1.0, help="exponent that fits scores to the thresholds")
    arguments = parser.parse_args()
    with np.load(arguments.weights) as stored:
        export(dict(stored), arguments.out, arguments.score_power)
    for path in sorted(arguments.out.glob("inference.*")):
        print(f"{path.name} {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
