# SPDX-License-Identifier: Apache-2.0
"""A layout model of PP-DocLayoutV3's published shape with random weights, as `published_shape` makes one of V2's.

In the environment `parser`, in workshop: python -m demo_training.layout.published_shape_v3 OUT [--small]

OUT gets `inference.json`, `.pdiparams` and `.yml` as Paddle Inference reads them: outputs `boxes [M, 7]` (class, score,
corners, order), `boxes_num [N]`, `masks [M, 200, 200]`, for one page at a time. The same seed gives the same weights.

PaddleX's own dynamic class (3.7.2) is the model. It returns no masks, since its engine does without, and its boxes have
a column more; the published program's outputs are put together here of what the class computes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import yaml
from paddle import Tensor, nn
from paddle.static import InputSpec
from paddlex.inference.models.object_detection.modeling import _config_pp_doclayout_v3 as configuration
from paddlex.inference.models.object_detection.modeling import pp_doclayout_v3 as published

from .export import METADATA
from .inference_graph import INPUT
from .published_shape import CLASSES, GRIDS, SEED, SMALL, attend, draw_squares, fill

NAME = "PP-DocLayoutV3"
CONFIG = {"model_type": "pp_doclayout_v3", "num_labels": CLASSES}
SMALL_V3 = {
    **{key: value for key, value in SMALL.items() if key != "reading_order_config"},
    "mask_feature_channels": [16, 16],
    "x4_feat_dim": 32,
    "num_prototypes": 8,
}


class Static(nn.Layer):
    """The model with the published program's inputs and outputs."""

    def __init__(self, model: nn.Layer) -> None:
        super().__init__()
        self.model = model

    def forward(self, im_shape: Tensor, image: Tensor, scale_factor: Tensor) -> list[Tensor]:
        found = self.model.model(image)
        boxes, scores = found["intermediate_reference_points"][:, -1], found["intermediate_logits"][:, -1]
        order = found["out_order_logits"][:, -1]
        page = paddle.floor(im_shape / scale_factor + 0.5).flip(1).tile([1, 2])  # width, height, width, height
        places, _ = published.get_order(order)
        half = boxes[0, :, 2:] / 2
        corners = paddle.concat([boxes[0, :, :2] - half, boxes[0, :, :2] + half], -1) * page
        best, label = nn.functional.sigmoid(scores[0]).max(-1), scores[0].argmax(-1)
        columns = [part.unsqueeze(-1).astype("float32") for part in (label, best)]
        rows = paddle.concat([*columns, corners, places[0].unsqueeze(-1).astype("float32")], -1)
        masks = (found["out_masks"][0, -1] > 0).astype("int32")
        return [rows, paddle.full([1], rows.shape[0], "int32"), masks]


def make_model(config: dict[str, Any], seed: int = SEED) -> nn.Layer:
    published.MultiScaleDeformableAttention.forward = attend
    model = published.PPDocLayoutV3(configuration.PPDocLayoutV3Config(**config, freeze_backbone_batch_norms=False))
    fill(model, draw_squares(seed), seed, published.PPDocLayoutV3FrozenBatchNorm2d)
    # Constants in the program, not the operators that make them.
    anchors, inside = (part.numpy().astype(np.float32) for part in model.model.generate_anchors(GRIDS))
    model.model.generate_anchors = lambda *_, **__: (paddle.to_tensor(anchors), paddle.to_tensor(inside))
    return model


def save(model: nn.Layer, out: Path) -> None:
    inputs = [
        InputSpec([1, 2], "float32", "im_shape"),
        InputSpec([1, 3, INPUT, INPUT], "float32", "image"),
        InputSpec([1, 2], "float32", "scale_factor"),
    ]
    static = paddle.jit.to_static(Static(model), input_spec=inputs, full_graph=True)
    out.mkdir(parents=True, exist_ok=True)
    paddle.jit.save(static, str(out / "inference"))
    metadata = {**METADATA, "Global": {"model_name": NAME}}
    (out / "inference.yml").write_text(yaml.safe_dump(metadata, sort_keys=False), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--small", action="store_true", help="few channels and layers: every operation, cheaply")
    options = parser.parse_args()
    save(make_model({**CONFIG, **(SMALL_V3 if options.small else {})}), options.out)


if __name__ == "__main__":
    main()
