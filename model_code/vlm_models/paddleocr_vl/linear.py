# SPDX-License-Identifier: Apache-2.0
"""Linear layers of tower and projector, with the operation that follows, which on CPUs is part of the product: oneDNN
applies GELU, or adds the residual, while a block of the product is still in a register."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor
from vllm.model_executor.layers.linear import LinearBase

from ..onednn import OneDnnLinearMethod

if TYPE_CHECKING:  # it needs Numba
    from ..int8 import Int8LinearMethod


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


def ready(layer: object) -> TypeGuard[OneDnnLayer]:
    """Whether ``layer`` holds weights in oneDNN's layout."""
    return hasattr(layer, "onednn_weight")


def in_integers(layer: object) -> TypeGuard[Int8Layer]:
    """Whether ``layer`` holds weights in 8-bit integers (vlm_models.int8)."""
    return hasattr(layer, "int8_product")


def linear_gelu(layer: LinearBase, x: Tensor, approximate: str) -> Tensor:
    """GELU(layer(x)); ``approximate`` as in torch: "none" or "tanh". ``layer`` is column-parallel."""
    if ready(layer):
        return torch.ops.mkldnn._linear_pointwise(x, layer.onednn_weight, layer.bias, "gelu", [], approximate)
    return F.gelu(layer(x), approximate=approximate)


def linear_add(layer: LinearBase, x: Tensor, residual: Tensor) -> Tensor:
    """layer(x) + residual, both [T, features]; ``layer`` is row-parallel."""
    # With several ranks the products must be summed first, and the residual added once.
    if layer.tp_size == 1:
        if ready(layer):
            weight, bias = layer.onednn_weight, layer.bias
            return torch.ops.mkldnn._linear_pointwise.binary(x, residual, weight, bias, "add")
        if in_integers(layer):
            return layer.quant_method.add(layer, x, residual)
    return residual + layer(x)


def perceptron(first: LinearBase, second: LinearBase, x: Tensor, residual: Tensor) -> Tensor:
    """second(GELU(first(x))) + residual, GELU by tanh, [T, features]; column-parallel, then row-parallel."""
    if in_integers(first) and in_integers(second) and second.tp_size == 1:
        return first.quant_method.perceptron(first, second, x, residual)
    return linear_add(second, linear_gelu(first, x, "tanh"), residual)
