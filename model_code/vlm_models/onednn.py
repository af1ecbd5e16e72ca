# SPDX-License-Identifier: Apache-2.0
"""Linear layers on a CPU as oneDNN's products, with weights in its own blocked layout, put there once as they load.

A step of decoding reads all weights for a few rows. PyTorch's plain product, which vLLM 0.11.1 takes, needs twice the
time for that in bfloat16 and three times in float32 (docs/decisions/0104). In the tower, what follows is part of the
product too (``paddleocr_vl.linear``). The operators are those that torch.compile's CPU back end calls; where a release
of torch lacks them, or the processor the instructions, the plain path stays.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import (
    ParallelLMHead,
    UnquantizedEmbeddingMethod,
    VocabParallelEmbedding,
)
from vllm.platforms import current_platform

# Rows for which the layout is chosen. Products of 1 to 4096 rows were equally fast with it.
ROWS = 1024


class OneDnnLinearMethod(UnquantizedLinearMethod):
    """Takes the place of vLLM's method for a layer without quantisation."""

    def process_weights_after_loading(self, layer: nn.Module) -> None:
        weight = layer.get_parameter("weight")
        layer.onednn_weight = torch.ops.mkldnn._reorder_linear_weight(weight.data, ROWS)
        # The plain weights are not needed any more.
        layer.weight = nn.Parameter(weight.new_empty(0), requires_grad=False)

    def apply(self, layer: nn.Module, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, layer.onednn_weight, bias, "none", [], "")


def use_onednn(*modules: nn.Module) -> None:
    """Compute the linear layers of ``modules`` by oneDNN, the choice of a token among them, unless it shares the
    embeddings' weights; called before weights are loaded. Does nothing where oneDNN cannot."""
    if not (
        current_platform.is_cpu()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    ):
        return
    plain = [
        layer
        for module in modules
        for layer in module.modules()
        if isinstance(layer, LinearBase | VocabParallelEmbedding)
        and type(layer.quant_method) in (UnquantizedLinearMethod, UnquantizedEmbeddingMethod)
    ]
    products = [layer for layer in plain if isinstance(layer, LinearBase | ParallelLMHead)]
    shared = {id(layer.get_parameter("weight")) for layer in plain if layer not in products}
    for layer in products:
        weight = layer.get_parameter("weight")
        if id(weight) not in shared and multiplies(weight.dtype):
            layer.quant_method = OneDnnLinearMethod()


def multiplies(dtype: torch.dtype) -> bool:
    """Whether oneDNN takes such weights on this processor: bfloat16 needs AVX-512 or AVX-NE-CONVERT."""
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
