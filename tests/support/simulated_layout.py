# SPDX-License-Identifier: Apache-2.0
"""The simulated layout model, for tests of the parser.

It has the published PP-DocLayoutV2's contract (inputs `im_shape`, `image`, `scale_factor`; outputs
`boxes [M, 8]` and `boxes_num [N]`) but looks at nothing: every page gets the same boxes, given as
fractions of its width and height. The tests thus know which blocks a page has. As PP-DocLayoutV3 it
has that one's (`boxes [M, 7]`, `boxes_num [N]`, `masks [M, 200, 200]`), for one page at a time.

Run in the environment `parser`: `python -m tests.support.simulated_layout FOLDER`, whose name is the model's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from demo_training.pages.labels import LABELS

# (label, x1, y1, x2, y2) as fractions of the page, in reading order.
BOXES = [
    ("header", 0.10, 0.02, 0.90, 0.05),
    ("doc_title", 0.10, 0.08, 0.90, 0.14),
    ("text", 0.10, 0.18, 0.90, 0.32),
    ("image", 0.10, 0.36, 0.50, 0.56),
    ("table", 0.10, 0.60, 0.90, 0.76),
    ("paragraph_title", 0.10, 0.79, 0.60, 0.83),
    ("text", 0.10, 0.85, 0.90, 0.94),
    ("number", 0.45, 0.96, 0.55, 0.99),
]

# As BOXES, and the outline of the block's mask. The slanted line is a quad, the text around the seal an L.
V3 = "PP-DocLayoutV3"
SHAPES = [
    ("doc_title", [(0.10, 0.08), (0.90, 0.08), (0.90, 0.14), (0.10, 0.14)]),
    ("text", [(0.10, 0.30), (0.88, 0.18), (0.90, 0.26), (0.12, 0.38)]),
    ("text", [(0.10, 0.45), (0.90, 0.45), (0.90, 0.55), (0.50, 0.55), (0.50, 0.75), (0.10, 0.75)]),
    ("seal", [(0.60, 0.60), (0.80, 0.60), (0.80, 0.72), (0.60, 0.72)]),
]

INFERENCE_YML = """\
mode: paddle
draw_threshold: 0.5
metric: COCO
use_dynamic_shape: false
Global:
  model_name: MODEL
arch: DETR
min_subgraph_size: 3
Preprocess:
- interp: 2
  keep_ratio: false
  target_size:
  - 800
  - 800
  type: Resize
- mean: [0.0, 0.0, 0.0]
  norm_type: none
  std: [1.0, 1.0, 1.0]
  type: NormalizeImage
- type: Permute
label_list:
"""


def build(folder: Path) -> Path:
    """Writes `inference.json`, `inference.pdiparams` and `inference.yml` into `folder`; returns it."""
    if folder.name == V3:
        return build_v3(folder)
    import paddle

    rows = [[LABELS.index(label), 0.9, *fractions, order, 0.0] for order, (label, *fractions) in enumerate(BOXES)]

    class Simulated(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.rows = self.create_parameter([len(rows), 8])
            self.rows.set_value(paddle.to_tensor(rows, dtype="float32"))

        def forward(self, im_shape, image, scale_factor):
            size = im_shape / scale_factor  # [N, 2]: height, width of the source page in pixels
            height, width = size[:, 0:1], size[:, 1:2]
            one = paddle.ones_like(width)
            factors = paddle.concat([one, one, width, height, width, height, one, one], axis=1)  # [N, 8]
            boxes = (self.rows.unsqueeze(0) * factors.unsqueeze(1)).reshape([-1, 8])
            unused = image.sum(axis=[1, 2, 3]) * 0  # keeps `image` an input of the graph
            counts = paddle.full_like(unused, len(rows), dtype="float32") + unused
            return boxes, counts.astype("int32")

    return save(Simulated(), folder)


def build_v3(folder: Path) -> Path:
    """The same as PP-DocLayoutV3, with SHAPES."""
    import cv2
    import numpy as np
    import paddle

    rows, masks = [], np.zeros((len(SHAPES), 200, 200), np.int32)
    for order, (label, outline) in enumerate(SHAPES):
        x, y = zip(*outline, strict=True)
        rows.append([LABELS.index(label), 0.9, min(x), min(y), max(x), max(y), order])
        corners = np.array([(200 * px, 200 * py) for px, py in outline], np.int32)
        cv2.fillPoly(masks[order], [corners], (1,))

    class Simulated(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.rows = self.create_parameter([len(rows), 7])
            self.rows.set_value(paddle.to_tensor(rows, dtype="float32"))
            self.masks = self.create_parameter([len(rows), 200, 200])
            self.masks.set_value(paddle.to_tensor(masks, dtype="float32"))

        def forward(self, im_shape, image, scale_factor):
            size = im_shape / scale_factor
            height, width = size[:, 0:1], size[:, 1:2]
            one = paddle.ones_like(width)
            factors = paddle.concat([one, one, width, height, width, height, one], axis=1)  # [1, 7]
            unused = image.sum(axis=[1, 2, 3]) * 0
            counts = paddle.full_like(unused, len(rows), dtype="float32") + unused
            return self.rows * factors, counts.astype("int32"), self.masks.astype("int32")

    return save(Simulated(), folder)


def save(layer, folder: Path) -> Path:
    """Export the layer with the published models' inputs, and what PaddleX reads beside it."""
    import paddle

    paddle.set_device("cpu")
    spec = paddle.static.InputSpec
    model = paddle.jit.to_static(
        layer,
        input_spec=[
            spec([None, 2], "float32", "im_shape"),
            spec([None, 3, 800, 800], "float32", "image"),
            spec([None, 2], "float32", "scale_factor"),
        ],
        full_graph=True,
    )
    folder.mkdir(parents=True, exist_ok=True)
    paddle.jit.save(model, str(folder / "inference"))
    text = INFERENCE_YML.replace("MODEL", folder.name) + "".join(f"- {label}\n" for label in LABELS)
    (folder / "inference.yml").write_text(text)
    return folder


if __name__ == "__main__":
    build(Path(sys.argv[1]))
