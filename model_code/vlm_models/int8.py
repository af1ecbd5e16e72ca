# SPDX-License-Identifier: Apache-2.0
"""Linear layers in 8-bit integers on a CPU (VLM_PRECISION=int8): made from the checkpoint's own weights as they load.

A row of weights has one scale (symmetric, by its largest number), a row of activations one that is found as it comes.
The products are oneDNN's, by PyTorch's operator; what stands between them are kernels of ours, in one pass over the
data (docs/decisions/0109).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor, nn
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, UnquantizedEmbeddingMethod
from vllm.platforms import current_platform

from .kernels import available
from .kernels.int8 import ELEMENTS, ZERO, finish, finish_add, gelu_quantise, quantise
from .kernels.openmp import Kernel

# Rows of one product: its sums, 4 bytes each, stay in the last-level cache until they are taken on.
ROWS = 512
# Numbers up to which a kernel runs in the calling thread: a step of decoding has so few between its products.
ALONE = 1 << 15
# oneDNN makes a program for each number of rows. Beyond a step of decoding, numbers are filled up to multiples.
FEW, MULTIPLE = 64, 32
# Largest weights in integers, best first. Without VNNI, a processor adds two products in 16 bits, which end at 32,767:
# 255 * 127 twice is beyond that, 255 * 64 twice is not.
LARGEST = (127, 64)
# The least that a row's largest weight counts as.
LEAST = 1e-30


def multiply(x: Tensor, packed: Tensor, scales: Tensor, zero_points: Tensor) -> Tensor:
    """(x - ZERO) @ weights.T * scales, [R, N] float32, of x [R, K] uint8 and packed weights, int8."""
    return torch.ops.onednn.qlinear_pointwise(
        x, 1.0, ZERO, packed, scales, zero_points, None, 1.0, 0, torch.float32, "none", [], ""
    )


@cache
def largest_weight() -> int:
    """The first of LARGEST whose products are exact on this processor; 0 if none is.

    Asked of the products themselves: which program oneDNN takes depends on the processor and on the number of rows.
    """
    x = torch.full((ROWS, 1152), 255, dtype=torch.uint8)
    x[:, ::3] = 0
    for largest in LARGEST:
        weights = torch.full((48, x.shape[1]), largest, dtype=torch.int8)
        weights[::2].neg_()
        expected = ((x.double() - ZERO) @ weights.double().T).float()  # below 2 ** 24: exact
        packed = torch.ops.onednn.qlinear_prepack(weights, None)
        ones, zeros = torch.ones(48, dtype=torch.float32), torch.zeros(48, dtype=torch.int32)
        if all(torch.equal(multiply(x[:rows], packed, ones, zeros), expected[:rows]) for rows in (1, 16, ROWS)):
            return largest
    return 0


class Product:
    """x @ weight.T in integers, for one layer.

    Args:
        weight: [N, K] of any floating type.
        bias: [N], or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.float()
        largest = largest_weight()
        assert largest, "use_int8 refuses this processor"
        # A row of zeros has a scale too, so that nothing divides by 0.
        self.scales = weight.abs().amax(1).clamp_(min=LEAST) / largest
        whole = (weight / self.scales[:, None]).round_().to(torch.int8)
        self.features, self.inputs = whole.shape
        self.zero_points = torch.zeros(self.features, dtype=torch.int32)
        # Said, because vLLM loads with the model's type as the default.
        self.nothing = torch.zeros(self.features, dtype=torch.float32)
        self.bias = self.nothing if bias is None else bias.detach().float().contiguous()
        # In oneDNN's layout, with each row's sum, which takes away what activations are moved by.
        self.packed = torch.ops.onednn.qlinear_prepack(whole, None)

    def __call__(self, x: Tensor) -> Tensor:
        """Sums [R, N] float32 of x [R, K] uint8, with the weights' scales in them."""
        # A row of x has a scale of its own: the kernels behind apply it with what else follows.
        return multiply(x, self.packed, self.scales, self.zero_points)

    def add(self, whole: Tensor, scales: Tensor, residual: Tensor, out: Tensor) -> None:
        """out = product + bias + residual; out and residual [R, N], ``whole`` with what fills it up."""
        run(finish_add(out.dtype), self(whole), scales, self.bias, residual, out, len(out), self.features)


class Int8LinearMethod(UnquantizedLinearMethod):
    """Takes the place of the method of a layer whose weights come unquantised, the choice of a token among them."""

    def process_weights_after_loading(self, layer: nn.Module) -> None:
        weight = layer.get_parameter("weight")
        # To mypy a module has tensors and modules alone.
        layer.int8_product = Product(weight.data, getattr(layer, "bias", None))  # type: ignore[assignment]
        # The plain weights are not needed any more.
        layer.weight = nn.Parameter(weight.new_empty(0), requires_grad=False)

    def apply(self, layer: nn.Module, x: Tensor, bias: Tensor | None = None) -> Tensor:
        product = product_of(layer)
        shape = (*x.shape[:-1], product.features)
        x = x.reshape(-1, product.inputs).contiguous()
        out = x.new_empty(len(x), product.features)
        added = product.nothing if bias is None else product.bias
        step = finish(x.dtype)
        for some in parts(len(x)):
            whole, scales = integers(x[some])
            run(step, product(whole), scales, added, out[some], len(scales), product.features)
        return out.view(shape)

    def add(self, layer: object, x: Tensor, residual: Tensor) -> Tensor:
        """layer(x) + residual, [R, K] and [R, N]."""
        out = torch.empty_like(residual)
        for some in parts(len(x)):
            product_of(layer).add(*integers(x[some]), residual[some], out[some])
        return out

    def perceptron(self, first: object, second: object, x: Tensor, residual: Tensor) -> Tensor:
        """second(GELU(first(x))) + residual, GELU by tanh; x and residual [R, K]. What lies between the products never
        leaves the cache, and is rounded once."""
        before, behind = product_of(first), product_of(second)
        out = torch.empty_like(residual)
        for some in parts(len(x)):
            whole, scales = integers(x[some])
            sums = before(whole)
            inner, steps = torch.empty_like(sums, dtype=torch.uint8), torch.empty_like(scales)
            run(gelu_quantise(), sums, scales, before.bias, inner, steps, len(scales), before.features)
            behind.add(inner, steps, residual[some], out[some])
        return out


def product_of(layer: object) -> Product:
    product = getattr(layer, "int8_product", None)
    assert isinstance(product, Product)
    return product


def parts(rows: int) -> Iterator[slice]:
    for first in range(0, rows, ROWS):
        yield slice(first, first + ROWS)


def integers(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [R, K] as integers [R or more, K] and scales [R]; rows that fill up hold anything."""
    rows, inputs = x.shape
    filled = rows if rows <= FEW else -(-rows // MULTIPLE) * MULTIPLE
    whole, scales = x.new_empty(filled, inputs, dtype=torch.uint8), x.new_empty(rows, dtype=torch.float32)
    run(quantise(x.dtype), x, whole, scales, rows, inputs)
    return whole, scales


def run(kernel: Kernel, *arguments: Tensor | int) -> None:
    """A kernel of vlm_models.kernels.int8, whose last two arguments are rows and features."""
    rows, features = arguments[-2:]
    kernel(*arguments, alone=int(rows) * int(features) <= ALONE)


def use_int8(*modules: nn.Module) -> None:
    """Compute the linear layers of ``modules`` in integers; called before weights are loaded.

    Raises ValueError where that cannot be.
    """
    if why := why_not():
        raise ValueError(f"VLM_PRECISION is 'int8', but {why}; leave it empty")
    for module in modules:
        for name, layer in module.named_modules():
            if isinstance(layer, LinearBase | ParallelLMHead):
                if not isinstance(layer.quant_method, UnquantizedLinearMethod | UnquantizedEmbeddingMethod):
                    raise ValueError(
                        f"VLM_PRECISION is 'int8', but the weights of {name} are quantised already; leave it empty"
                    )
                if (dtype := layer.get_parameter("weight").dtype) not in ELEMENTS:
                    raise ValueError(f"VLM_PRECISION is 'int8', but --dtype is {dtype}; expected bfloat16 or float32")
                layer.quant_method = Int8LinearMethod()


@torch.no_grad()
def balance(norm: nn.Module, layer: nn.Module) -> None:
    """Share what the features of a norm differ by with the layer that alone reads them, before its integers are made.

    A row of activations has one scale, so a feature that a norm makes large takes the steps of all others. It is
    divided by a power of two, and the layer's column multiplied by it: their product stays what it was, to the bit. The
    factor is SmoothQuant's, sqrt(feature / column) (Xiao et al. 2023, equation 4, with alpha a half), with the norm's
    weight for the feature's size, so it needs no documents to look at.
    """
    weight = layer.get_parameter("weight").data
    scale = norm.get_parameter("weight").data
    features, columns = scale.float().abs().clamp_(min=LEAST), weight.float().abs().amax(0).clamp_(min=LEAST)
    ratio = features / columns
    factors = torch.exp2((ratio / ratio.median()).log2().div_(2).round_().clamp_(-8, 8))
    for parameter in norm.parameters(recurse=False):
        parameter.data.div_(factors.to(parameter.dtype))
    weight.mul_(factors.to(weight.dtype))


def why_not() -> str | None:
    """Why this process cannot compute so, None if it can."""
    if not current_platform.is_cpu():
        return f"vLLM runs on {current_platform.device_type}; that is for CPUs"
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.onednn, "qlinear_pointwise")):
        return "this PyTorch has no oneDNN"
    if not largest_weight():
        return "oneDNN's products are not exact on this processor"
    if not available():
        return "Numba, or PyTorch's OpenMP runtime, is missing"
    return None
