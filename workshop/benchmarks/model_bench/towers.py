# SPDX-License-Identifier: Apache-2.0
"""The three implementations behind one call: patches of crops -> features for the language model."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .inputs import HEADS, HIDDEN, INTERMEDIATE, TEXT

Grid = tuple[int, int, int]
# () -> [sum of patches / 4, 1024], of the patches that it was made for
Encode = Callable[[], Tensor]
# [sum of patches, 3, 14, 14] row-major per crop, and the crops' grids, brought into an implementation's own form
Prepare = Callable[[Tensor, list[Grid]], Encode]

VISION = {
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_attention_heads": HEADS,
    "num_channels": 3,
    "image_size": 384,
    "patch_size": 14,
    "hidden_act": "gelu_pytorch_tanh",
    "layer_norm_eps": 1e-6,
    "spatial_merge_size": 2,
}


def part(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors below a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def vllm_context(dtype: torch.dtype, device: torch.device) -> Any:
    """What vLLM's layers ask for when they are built: one rank, a configuration. Returns a context manager."""
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.distributed import init_distributed_environment, initialize_model_parallel
    from vllm.utils.network_utils import get_distributed_init_method, get_open_port

    config = VllmConfig(device_config=DeviceConfig(device=torch.device(device.type)))
    context = set_current_vllm_config(config)
    with context:
        init_distributed_environment(
            1,
            0,
            get_distributed_init_method("127.0.0.1", get_open_port()),
            0,
            "gloo" if device.type == "cpu" else "nccl",
        )
        initialize_model_parallel(1, 1)
    torch.set_default_dtype(dtype)
    torch.set_default_device(device)
    return set_current_vllm_config(config)


def finish_loading(*modules: torch.nn.Module) -> None:
    """What vLLM's loader does after the last weight."""
    from vllm.model_executor.layers.linear import LinearBase

    for module in modules:
        for layer in module.modules():
            if isinstance(layer, LinearBase) and layer.quant_method is not None:
                layer.quant_method.process_weights_after_loading(layer)


def ours(weights: dict[str, Tensor], device: torch.device, layers: int, dtype: torch.dtype) -> Prepare:
    from vlm_models.paddleocr_vl.config import PaddleOCRVLConfig
    from vlm_models.paddleocr_vl.image_processing import merge_block_order
    from vlm_models.paddleocr_vl.projector import Projector
    from vlm_models.paddleocr_vl.vision import VisionModel
    from vlm_models.paddleocr_vl.weights import load_stacked
    from vlm_models.settings import in_int8

    with vllm_context(dtype, device):
        config = PaddleOCRVLConfig(vision_config={**VISION, "num_hidden_layers": layers})
        tower, projector = VisionModel(config.vision_config), Projector(config)
        if in_int8(os.environ):
            from vlm_models.int8 import use_int8

            use_int8(tower.vision_model.encoder)
    tower.vision_model.load_weights(part(weights, "visual.vision_model.").items())
    load_stacked(projector, part(weights, "mlp_AR.").items(), {})
    finish_loading(tower, projector)

    def prepare(pixels: Tensor, grids: list[Grid]) -> Encode:
        # Our image processor emits patches in merge-block order; the others take them row-major.
        counts = [rows * columns for _, rows, columns in grids]
        ordered = [
            values.flatten(1)[torch.from_numpy(merge_block_order(rows, columns, 2)).to(device)]
            for values, (_, rows, columns) in zip(pixels.split(counts), grids, strict=True)
        ]
        patches = torch.cat(ordered).to(dtype)
        return lambda: projector(tower(patches, grids))

    return prepare


def in_tree(weights: dict[str, Tensor], device: torch.device, layers: int, dtype: torch.dtype) -> Prepare:
    """As its ``_process_image_input`` does it."""
    from vllm.model_executor.models.paddleocr_vl import (
        PaddleOCRVLForConditionalGeneration,
        Projector,
        SiglipVisionModel,
    )

    from vlm_models.paddleocr_vl.config import PaddleOCRVLConfig

    config = PaddleOCRVLConfig(vision_config={**VISION, "num_hidden_layers": layers})
    with vllm_context(dtype, device):
        tower = SiglipVisionModel(config.vision_config, prefix="visual")
        projector = Projector(config.text_config, config.vision_config)
    tower.load_weights(part(weights, "visual.").items())
    projector.load_state_dict(part(weights, "mlp_AR."))
    finish_loading(tower)
    model = SimpleNamespace(visual=tower, mlp_AR=projector)
    model.encode_image = PaddleOCRVLForConditionalGeneration.encode_image.__get__(model)
    process: Callable[[Any, Any], Any] = PaddleOCRVLForConditionalGeneration._process_image_input

    def prepare(pixels: Tensor, grids: list[Grid]) -> Encode:
        crops = [values.to(dtype) for values in pixels.split([rows * columns for _, rows, columns in grids])]
        # On the device's side of vLLM: the in-tree model does not keep sizes on the host.
        arguments = SimpleNamespace(pixel_values=crops, image_grid_thw=torch.tensor(grids, device=device))
        return lambda: torch.cat(list(process(model, arguments)))

    return prepare


def transformers_tower(weights: dict[str, Tensor], device: torch.device, layers: int, dtype: torch.dtype) -> Prepare:
    # Runs in the environment `reference`; the VLM server's transformers is older.
    from transformers import PaddleOCRVLConfig  # type: ignore[attr-defined]

    # As above.
    from transformers.models.paddleocr_vl.modeling_paddleocr_vl import (  # type: ignore[import-not-found]
        PaddleOCRProjector,
        PaddleOCRVisionModel,
    )

    config = PaddleOCRVLConfig(vision_config={**VISION, "num_hidden_layers": layers}, text_config={"hidden_size": TEXT})
    config.vision_config._attn_implementation = "sdpa"
    tower, projector = PaddleOCRVisionModel(config.vision_config).eval(), PaddleOCRProjector(config)
    own = {
        **{f"tower.{k}": v for k, v in part(weights, "visual.").items()},
        **{f"projector.{k}": v for k, v in part(weights, "mlp_AR.").items()},
    }
    for name, module in (("tower.", tower), ("projector.", projector)):
        missing = module.load_state_dict(part(own, name), strict=False)
        # A table for another way of packing is in the published checkpoint, and unused.
        absent = [key for key in missing.missing_keys if "packing_position_embedding" not in key]
        if absent or missing.unexpected_keys:
            raise KeyError(f"{name}: missing {absent}, unexpected {missing.unexpected_keys}")
    tower, projector = tower.to(device, dtype), projector.to(device, dtype)

    def prepare(pixels: Tensor, grids: list[Grid]) -> Encode:
        values, sizes = pixels.to(dtype)[None], torch.from_numpy(np.array(grids)).to(device)
        return lambda: projector(tower(pixel_values=values, grid_thw=sizes).last_hidden_state, sizes)

    return prepare


TOWERS = {"ours": ours, "in_tree": in_tree, "transformers": transformers_tower}
