# SPDX-License-Identifier: Apache-2.0
"""Linear layers of tower and projector. Where the device can, the operation that follows is part of the product.

On CPUs, oneDNN applies GELU, or adds the residual, while a block of the product is still in a register, and takes
weights that were put into its blocked layout once instead of in every call. The operators are those that
torch.compile's CPU back end calls; where a release of torch lacks them, or the processor the instructions, the plain
path runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.platforms import current_platform

if TYPE_CHECKING:  # it needs Numba
    from ..int8 import Int8LinearMethod

# Rows for which the layout is chosen. Products of 64 to 4096 rows were equally fast with it.
_ROWS = 1024


class OneDnnLinearMethod(UnquantizedLinearMethod):
    """Weights in oneDNN's layout; replaces vLLM's method for layers without quantisation on a CPU."""

    def process_weights_after_loading(self, layer: nn.Module) -> None:
        weight = layer.get_parameter("weight")
        layer.onednn_weight = torch.ops.mkldnn._reorder_linear_weight(weight.data, _ROWS)
        # The plain weights are not needed any more.
        layer.weight = nn.Parameter(weight.new_empty(0), requires_grad=False)

    def apply(self, layer: nn.Module, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, layer.onednn_weight, bias, "none", [], "")

    def gelu(self, layer: OneDnnLayer, x: Tensor, approximate: str) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, layer.onednn_weight, layer.bias, "gelu", [], approximate)

    def add(self, layer: OneDnnLayer, x: Tensor, residual: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, layer.onednn_weight, layer.bias, "add")


class OneDnnLayer(Protocol):
    """What is read of one of vLLM's linear layers after its weights were put into oneDNN's layout."""

    quant_method: OneDnnLinearMethod
    onednn_weight: Tensor
    bias: Tensor | None
    tp_size: int


class Int8Layer(Protocol):
    """What is read of one of vLLM's linear layers whose weights became integers."""

    quant_method: Int8LinearMethod
    tp_size: int


def fused(layer: LinearBase) -> LinearBase:
    """``layer``, prepared for :func:`linear_gelu` and :func:`linear_add`."""
    available = (
        current_platform.is_cpu()
        and type(layer.quant_method) is UnquantizedLinearMethod
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and multiplies(layer.params_dtype)
    )
    if available:
        layer.quant_method = OneDnnLinearMethod()
    return layer


def multiplies(dtype: torch.dtype) -> bool:
    """Whether oneDNN takes such weights on this processor: bfloat16 needs AVX-512 or AVX-NE-CONVERT."""
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def ready(layer: object) -> TypeGuard[OneDnnLayer]:
    """Whether ``layer`` holds weights in oneDNN's layout."""
    return hasattr(layer, "onednn_weight")


def in_integers(layer: object) -> TypeGuard[Int8Layer]:
    """Whether ``layer`` holds weights in 8-bit integers (vlm_models.int8)."""
    return hasattr(layer, "int8_product")


def linear_gelu(layer: LinearBase, x: Tensor, approximate: str) -> Tensor:
    """GELU(layer(x)); ``approximate`` as in torch: "none" or "tanh". ``layer`` is column-parallel."""
    if ready(layer):
        return layer.quant_method.gelu(layer, x, approximate)
    return F.gelu(layer(x), approximate=approximate)


def linear_add(layer: LinearBase, x: Tensor, residual: Tensor) -> Tensor:
    """layer(x) + residual, both [T, features]; ``layer`` is row-parallel."""
    # With several ranks the products must be summed first, and the residual added once.
    if layer.tp_size == 1:
        if ready(layer):
            return layer.quant_method.add(layer, x, residual)
        if in_integers(layer):
            return layer.quant_method.add(layer, x, residual)
    return residual + layer(x)


def perceptron(first: LinearBase, second: LinearBase, x: Tensor, residual: Tensor) -> Tensor:
    """second(GELU(first(x))) + residual, GELU by tanh, [T, features]; column-parallel, then row-parallel."""
    if in_integers(first) and in_integers(second) and second.tp_size == 1:
        return first.quant_method.perceptron(first, second, x, residual)
    return linear_add(second, linear_gelu(first, x, "tanh"), residual)
