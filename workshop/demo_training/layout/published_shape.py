# SPDX-License-Identifier: Apache-2.0
"""A layout model of PP-DocLayoutV2's published shape with random weights: what one costs, not what it finds.

In the environment `parser`, in workshop: python -m demo_training.layout.published_shape OUT [--boxes DIR] [--small]

OUT gets `config.json` and `model.safetensors` (53.7 M parameters) as transformers and PaddleX's engine paddle_dynamic
read them; `inference.json`, `.pdiparams` and `.yml` as Paddle Inference reads them; and `raw.npz`: a page `image` with
the Paddle class's answers to it in float64. The same seed gives the same weights.

Random weights find no blocks. With `--boxes models/demo/PP-DocLayoutV2` the static program runs the random model in
full, then the demo's, and gives the latter's boxes: what follows layout then has the work of a real page.

PaddleX's own dynamic class is the model. As PaddleX 3.7.2 has it, its static program fails, because deformable
attention permutes five axes by a list of four; `attend` takes its place. The backbone's batch norms are Paddle's own
operator, which Paddle Inference folds into the convolutions, and not PaddleX's formula of them, which it does not.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import yaml
from paddle import Tensor, nn
from paddle.nn import functional
from paddle.static import InputSpec
from paddlex.inference.models.object_detection.modeling import _config_pp_doclayout_v2 as configuration
from paddlex.inference.models.object_detection.modeling import pp_doclayout_v2 as published
from safetensors.numpy import save_file

from .export import METADATA
from .inference_graph import INPUT, LayoutGraph
from .unexport import weights

CLASSES, SEED = 25, 17
#: Height and width of the feature maps, of strides 8, 16 and 32.
GRIDS = ((100, 100), (50, 50), (25, 25))
CONFIG = {
    "model_type": "pp_doclayout_v2",
    "num_labels": CLASSES,
    "class_thresholds": [0.5] * CLASSES,
    "class_order": [min(label, 19) for label in range(CLASSES)],
}
#: The same architecture with few channels and layers: every operation, at a fraction of the cost.
SMALL = {
    "backbone_config": {
        **configuration.DEFAULT_BACKBONE_CONFIG,
        "hidden_sizes": [32, 64, 96, 128],
        "stem_channels": [3, 8, 12],
        "stage_in_channels": [12, 32, 64, 96],
        "stage_mid_channels": [12, 16, 24, 32],
        "stage_out_channels": [32, 64, 96, 128],
        "stage_num_blocks": [1, 1, 1, 1],
        "stage_numb_of_layers": [2, 2, 2, 2],
    },
    "encoder_in_channels": [64, 96, 128],
    "encoder_hidden_dim": 64,
    "encoder_ffn_dim": 96,
    "d_model": 64,
    "decoder_in_channels": [64, 64, 64],
    "decoder_ffn_dim": 96,
    "decoder_layers": 2,
    "reading_order_config": {"num_hidden_layers": 1, "intermediate_size": 96},
}


def attend(
    self: nn.Layer,
    value: Tensor,
    spatial_shapes: Tensor,
    grids: list[tuple[int, int]],
    starts: Tensor,
    places: Tensor,
    weights: Tensor,
    step: int,
) -> Tensor:
    """Deformable attention: `value` [N, sum of H x W, heads, D], `places` [N, Q, heads, levels, points, 2] in 0..1,
    `weights` [N, Q, heads, levels, points] -> [N, Q, heads * D]."""
    pages, _, heads, depth = value.shape
    queries, levels, points = places.shape[1], places.shape[3], places.shape[4]
    maps = paddle.split(value, [height * width for height, width in grids], axis=1)
    at = (2 * places - 1).transpose([3, 0, 2, 1, 4, 5]).reshape([levels, pages * heads, queries, points, 2])
    sampled = [
        functional.grid_sample(
            level.transpose([0, 2, 3, 1]).reshape([pages * heads, depth, *grids[number]]),
            at[number],
            align_corners=False,
        )
        for number, level in enumerate(maps)
    ]
    shares = weights.transpose([0, 2, 1, 3, 4]).reshape([pages * heads, 1, queries, levels * points])
    total = (paddle.concat(sampled, -1) * shares).sum(-1)
    return total.reshape([pages, heads * depth, queries]).transpose([0, 2, 1])


class Static(nn.Layer):
    """The model with the inputs' names of the published program, and the boxes of ``boxes`` where that is given."""

    def __init__(self, model: nn.Layer, boxes: nn.Layer | None) -> None:
        super().__init__()
        self.model, self.boxes = model, boxes

    def forward(self, im_shape: Tensor, image: Tensor, scale_factor: Tensor) -> list[Tensor]:
        found = self.model([im_shape, image, scale_factor])
        if self.boxes is None:
            return found
        rows, counts = self.boxes(im_shape, image, scale_factor)
        # The sum ties the random model to the result, or passes over the program would drop it.
        return [rows + found[0].sum() * 0.0, counts]


def draw_squares(seed: int) -> np.ndarray:
    """[1, 3, 800, 800] of squares from 1 to 160 px, 0..1, so that deep layers see different things at each place."""
    random = np.random.default_rng(seed)
    layers = [
        random.random((3, INPUT // side, INPUT // side)).repeat(side, 1).repeat(side, 2) for side in (1, 8, 40, 160)
    ]
    return np.mean(layers, axis=0)[None].astype(np.float32)


def make_model(image: np.ndarray, seed: int = SEED, config: dict[str, Any] = CONFIG) -> nn.Layer:
    """The published class with normal weights of unit gain; its batch norms hold the statistics of ``image``."""
    published.MultiScaleDeformableAttention.forward = attend
    model = published.PPDocLayoutV2(configuration.PPDocLayoutV2Config(**config, freeze_backbone_batch_norms=False))
    fill(model, image, seed, published.PPDocLayoutV2FrozenBatchNorm2d)
    # Constants in the program, not the operators that make them.
    anchors, inside = (part.numpy().astype(np.float32) for part in model.model.generate_anchors(GRIDS))
    model.model.generate_anchors = lambda *_, **__: (paddle.to_tensor(anchors), paddle.to_tensor(inside))
    return model


def fill(model: nn.Layer, image: np.ndarray, seed: int, frozen: type[nn.Layer]) -> None:
    """Normal weights of unit gain; batch norms, `frozen` is PaddleX's, hold the statistics of ``image``."""
    model.eval()
    last = f"model.decoder.class_embed.{model.config.decoder_layers - 1}.bias"
    random = np.random.default_rng(seed)
    for name, held in sorted(model.state_dict().items()):
        shape = held.shape
        if name.endswith(("_mean", "_variance")):
            continue
        if name.endswith("bias"):
            value = random.normal(0, 0.05, shape)
        elif len(shape) == 1:
            value = random.uniform(0.8, 1.2, shape)
        elif "embeddings" in name or "embed.weight" in name:
            value = random.normal(0, 0.3, shape)
        else:
            value = random.normal(0, np.prod(shape[1:] if len(shape) == 4 else shape[:1]) ** -0.5, shape)
        # Some queries above their class's threshold and some below, so that the reading order has padding too.
        value = value - 2.0 if name == last else value
        held.set_value(value.astype(np.float32))
    norms = (nn.BatchNorm2D, frozen)
    hooks = [layer.register_forward_pre_hook(_measure) for layer in model.sublayers() if isinstance(layer, norms)]
    with paddle.no_grad():
        model.model(paddle.to_tensor(image))
    for hook in hooks:
        hook.remove()


def _measure(norm: nn.Layer, inputs: tuple[Tensor]) -> None:
    norm._mean.set_value(inputs[0].mean([0, 2, 3]))
    norm._variance.set_value(inputs[0].var([0, 2, 3]))


def save_safetensors(model: nn.Layer, out: Path) -> None:
    """Write the weights under transformers' names, linear layers as [outputs, inputs]."""
    weights = {name: value.numpy() for name, value in model.get_hf_state_dict().items()}
    for name in set(model.get_transpose_weight_keys()):  # it names some twice
        if weights[name].ndim == 2:
            weights[name] = np.ascontiguousarray(weights[name].T)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n", encoding="utf-8")


def save_static(model: nn.Layer, out: Path, boxes: nn.Layer | None) -> None:
    """Write the program for one page."""
    inputs = [
        InputSpec([1, 2], "float32", "im_shape"),
        InputSpec([1, 3, INPUT, INPUT], "float32", "image"),
        InputSpec([1, 2], "float32", "scale_factor"),
    ]
    static = paddle.jit.to_static(Static(model, boxes), input_spec=inputs, full_graph=True)
    paddle.jit.save(static, str(out / "inference"))
    (out / "inference.yml").write_text(yaml.safe_dump(METADATA, sort_keys=False), encoding="utf-8")


def save_raw(model: nn.Layer, image: np.ndarray, out: Path) -> None:
    """Write ``raw.npz``, in float64, where roundings do not decide the best 300 queries. Converts ``model``."""
    anchors, inside = model.model.generate_anchors()
    model.to(dtype="float64")
    with paddle.no_grad():
        raw = model.model(paddle.to_tensor(image.astype(np.float64)))
    np.savez(
        out / "raw.npz",
        image=image,
        logits=raw["intermediate_logits"][0, -1].numpy(),
        boxes=raw["intermediate_reference_points"][0, -1].numpy(),
        anchors=anchors.numpy(),
        inside=inside.numpy() > 0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--boxes", metavar="DIR", type=Path, help="the demo's layout model, whose boxes are given")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-static", action="store_true", help="leave out the static program (two processor minutes)")
    parser.add_argument("--small", action="store_true", help="few channels and layers; the static program alone")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    boxes = None
    if options.boxes is not None:
        known = weights(options.boxes)  # before any other layer of this process
        boxes = LayoutGraph()
        boxes.set_state_dict({name: paddle.to_tensor(value) for name, value in known.items()})
        boxes.eval()
    image = draw_squares(options.seed)
    if options.small:
        save_static(make_model(image, options.seed, {**CONFIG, **SMALL}), options.out, boxes)
        return
    model = make_model(image, options.seed)
    save_safetensors(model, options.out)
    if not options.no_static:
        save_static(model, options.out, boxes)
    save_raw(model, image, options.out)


if __name__ == "__main__":
    main()
