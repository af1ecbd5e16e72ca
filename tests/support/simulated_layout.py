# SPDX-License-Identifier: Apache-2.0
"""The simulated layout model, for tests of the parser.

It has the published PP-DocLayoutV2's contract (inputs `im_shape`, `image`, `scale_factor`; outputs
`boxes [M, 8]` and `boxes_num [N]`) but looks at nothing: every page gets the same boxes, given as
fractions of its width and height. The tests thus know which blocks a page has.

Run in the environment `parser`: `python -m tests.support.simulated_layout FOLDER`.
"""

from __future__ import annotations

import sys
from pathlib import Path

LABELS = [
    "abstract",
    "algorithm",
    "aside_text",
    "chart",
    "content",
    "display_formula",
    "doc_title",
    "figure_title",
    "footer",
    "footer_image",
    "footnote",
    "formula_number",
    "header",
    "header_image",
    "image",
    "inline_formula",
    "number",
    "paragraph_title",
    "reference",
    "reference_content",
    "seal",
    "table",
    "text",
    "vertical_text",
    "vision_footnote",
]

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

INFERENCE_YML = """\
mode: paddle
draw_threshold: 0.5
metric: COCO
use_dynamic_shape: false
Global:
  model_name: PP-DocLayoutV2
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

    paddle.set_device("cpu")
    spec = paddle.static.InputSpec
    model = paddle.jit.to_static(
        Simulated(),
        input_spec=[
            spec([None, 2], "float32", "im_shape"),
            spec([None, 3, 800, 800], "float32", "image"),
            spec([None, 2], "float32", "scale_factor"),
        ],
        full_graph=True,
    )
    folder.mkdir(parents=True, exist_ok=True)
    paddle.jit.save(model, str(folder / "inference"))
    (folder / "inference.yml").write_text(INFERENCE_YML + "".join(f"- {label}\n" for label in LABELS))
    return folder


if __name__ == "__main__":
    build(Path(sys.argv[1]))
