# SPDX-License-Identifier: Apache-2.0
"""What vllm-ascend's runner hands to our model: its own methods, on a device whose tensors hold no data."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from transformers import BatchFeature

from tests.npu.vllm_ascend.conftest import NEW

GRIDS = torch.tensor([[1, 4, 6], [1, 2, 8]])
HIDDEN = 8


def test_the_sizes_of_images_stay_on_the_host(layers):
    """From the scheduler's images to their features: one look at a size on the device would raise."""
    from vllm.multimodal.inputs import MultiModalFeatureSpec, MultiModalKwargsItems, PlaceholderRange

    from vlm_models.paddleocr_vl.model import PaddleOCRVLForConditionalGeneration
    from vlm_models.paddleocr_vl.multimodal import PaddleOCRVLMultiModalProcessor

    class Model(PaddleOCRVLForConditionalGeneration):
        """Without a tower: a patch is a row of its features, and the sizes are kept."""

        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.merge, self.sizes = 2, list[Any]()

        def visual(self, patches: torch.Tensor, grids: list[Any]) -> torch.Tensor:  # type: ignore[override]  # no module
            assert patches.device.type == "meta"
            self.sizes += grids
            return patches[: len(patches) // 4, :HIDDEN]

        def mlp_AR(self, features: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # no module
            return features

    patches = int(GRIDS.prod(-1).sum())
    inputs = BatchFeature({"pixel_values": torch.zeros(patches, 588), "image_grid_thw": GRIDS})
    processor: Any = types.SimpleNamespace()
    fields = PaddleOCRVLMultiModalProcessor._get_mm_fields_config(processor, inputs, {})
    items = MultiModalKwargsItems.from_hf_inputs(inputs, fields)["image"]
    lengths = (GRIDS.prod(-1) // 4).tolist()
    features = [
        MultiModalFeatureSpec(item, "image", str(number), PlaceholderRange(offset=0, length=length))
        for number, (item, length) in enumerate(zip(items, lengths, strict=True))
    ]
    kind = layers("worker.model_runner_v1").NPUModelRunner
    runner = kind.__new__(kind)
    model: Any = Model  # vLLM's interfaces promise more than is asked here
    runner.model, runner.device, runner.pin_memory = model(), torch.device("meta"), False
    runner.requests = {"a": types.SimpleNamespace(mm_features=features)}
    runner.encoder_cache, runner.is_multimodal_pruning_enabled = {}, False
    # Of later releases.
    runner.observability_config = runner.lora_config = runner.encoder_cudagraph_manager = None
    runner.requires_sequential_video_encoding = False
    kind._execute_mm_encoder(runner, types.SimpleNamespace(scheduled_encoder_inputs={"a": [0, 1]}))
    assert runner.model.sizes == [tuple(grid) for grid in GRIDS.tolist()]
    assert [len(runner.encoder_cache[name]) for name in ("0", "1")] == lengths


@pytest.mark.skipif(NEW, reason="stack 0.23.0 makes masks when they are asked for")
def test_masks_do_not_depend_on_the_size_that_the_builder_begins_with(layers):
    """Each state of the runner, prompts shorter and longer than that size; a larger mask is made once."""
    builder = layers("attention.attention_mask").AttentionMaskBuilder
    device, dtype = torch.device("cpu"), torch.bfloat16
    small, large = (builder(size, dtype, device) for size in (64, 300))
    for length in (5, 64, 65, 200, 130):
        asked = [one.get_attn_mask(length, dtype, device) for one in (small, large)]
        assert torch.equal(*asked) and asked[0].shape == (length, length) and asked[0].is_contiguous()
    assert len(small.attn_mask_cache) == 200
    for one, other in (
        [one.get_splitfuse_attn_mask() for one in (small, large)],
        [one.get_pooling_mask(device) for one in (small, large)],
    ):
        assert torch.equal(one, other) and one.dtype == other.dtype
