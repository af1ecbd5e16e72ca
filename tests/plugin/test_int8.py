# SPDX-License-Identifier: Apache-2.0
"""Products of 8-bit integers on a CPU: kernels against float64, layers against their weights, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from vllm.model_executor.layers.linear import ColumnParallelLinear, LinearBase, RowParallelLinear
from vllm.utils.torch_utils import set_default_torch_dtype

from tests.plugin.layers import linear_layer, one_rank
from tests.support.threads import torch_threads
from vlm_models import int8, onednn, settings
from vlm_models.kernels.int8 import ZERO, finish, finish_add, gelu_quantise, quantise
from vlm_models.paddleocr_vl import linear
from vlm_models.paddleocr_vl.config import PaddleOCRVLConfig
from vlm_models.paddleocr_vl.vision import VisionModel

__all__ = ["one_rank"]  # a fixture

DTYPES = [torch.bfloat16, torch.float32]
# Half a unit in the last place of a type's numbers, and what float32 adds to it.
ROUNDING = {torch.bfloat16: 2**-8 * 1.01, torch.float32: 1e-6}


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    with torch_threads(request.param):
        yield request.param


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (3, 31), (7, 64), (5, 1152)])
def test_rows_become_integers(threads, dtype, rows, size):
    x = (random(rows, size) * torch.tensor([1.0, 1e-6, 3e4, 1.0, 50.0, 2.0, 1e6])[:rows, None]).to(dtype)
    x[-1, 0] = 0
    if rows > 3:
        x[3] = 0
    whole, scales = torch.full((rows + 1, size), 99, dtype=torch.uint8), torch.full((rows + 1,), -7.0)
    quantise(dtype)(x, whole, scales, rows, size)
    assert scales[rows] == -7 and (whole[rows] == 99).all()  # nothing behind
    whole, scales = whole[:rows].int() - ZERO, scales[:rows]
    torch.testing.assert_close(scales.double(), x.double().abs().amax(1) / 127, rtol=1e-6, atol=0)
    assert ((whole.double() * scales.double()[:, None] - x.double()).abs() <= scales[:, None] * 0.5001).all()
    assert (whole.abs().amax(1) == torch.where(scales > 0, 127, 0)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (7, 33), (40, 128)])
def test_sums_become_numbers(threads, dtype, rows, size):
    sums, scales, bias, residual = random(rows, size), random(rows).abs(), random(size), random(rows, size, dtype=dtype)
    expected = sums.double() * scales.double()[:, None] + bias.double()
    out, added = (torch.empty(rows, size, dtype=dtype) for _ in range(2))
    finish(dtype)(sums, scales, bias, out, rows, size)
    finish_add(dtype)(sums, scales, bias, residual, added, rows, size)
    torch.testing.assert_close(out.double(), expected, rtol=ROUNDING[dtype], atol=1e-6)
    torch.testing.assert_close(added.double(), expected + residual.double(), rtol=ROUNDING[dtype], atol=1e-6)


@pytest.mark.parametrize("spread", [0.1, 1.0, 100.0, 1e18])
def test_gelu_of_sums_becomes_integers(threads, spread):
    rows, size = 9, 96
    sums, scales, bias = random(rows, size) * spread, random(rows).abs() + 0.1, random(size, seed=1)
    value = F.gelu(sums.double() * scales.double()[:, None] + bias.double(), approximate="tanh")
    whole, steps = torch.empty(rows, size, dtype=torch.uint8), torch.empty(rows)
    gelu_quantise()(sums, scales, bias, whole, steps, rows, size)
    torch.testing.assert_close(steps.double(), value.abs().amax(1) / 127, rtol=2e-4, atol=0)
    # Half a step, and what the kernel's exponential is off by.
    assert (((whole.double() - ZERO) * steps.double()[:, None] - value).abs() <= steps[:, None] * 0.53).all()


def in_int8(kind: type, dtype: torch.dtype, inputs: int, outputs: int) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """A layer, with the weights and the bias that it was made from."""
    layer: Any = linear_layer(kind, dtype, inputs, outputs)
    onednn.use_onednn(layer)
    weight, bias = layer.weight.double(), layer.bias.double()
    int8.use_int8(layer)
    with set_default_torch_dtype(dtype):  # as vLLM's loader does
        layer.quant_method.process_weights_after_loading(layer)
    return layer, weight, bias


def by_definition(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x @ weight.T in float64, both rounded to steps, row by row.

    The kernel rounds x, as the test above has proved it may: of bfloat16 numbers many lie in the middle of two steps.
    """
    whole, scales = int8.integers(x)
    steps = weight.float().abs().amax(1, keepdim=True) / int8.largest_weight()
    rounded = (weight.float() / steps).round().double() * steps.double()
    return (whole[: len(x)].double() - ZERO) * scales.double()[:, None] @ rounded.T


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("inputs", "outputs"), [(192, 448), (1152, 4304), (33, 7)])
@pytest.mark.parametrize("rows", [1, 16, 70, 1100])
def test_layers_are_what_their_integers_are(one_rank, dtype, inputs, outputs, rows):
    """Any size: rows that are filled up, several products one after another, features that fit no register."""
    column, weight, bias = in_int8(ColumnParallelLinear, dtype, inputs, outputs)
    row, _, _ = in_int8(RowParallelLinear, dtype, inputs, outputs)
    assert column.weight.numel() == 0, "the plain weights are to be given back"
    x, residual = random(rows, inputs, seed=2, dtype=dtype), random(rows, outputs, seed=3, dtype=dtype)
    expected = by_definition(x, weight) + bias
    with torch.inference_mode():
        out = column(x)
        assert out.dtype == dtype and out.shape == (rows, outputs)
        close: Any = {"rtol": ROUNDING[dtype], "atol": float(expected.abs().mean()) * 1e-4}
        torch.testing.assert_close(out.double(), expected, **close)
        bare = column.quant_method.apply(column, x).double()
        torch.testing.assert_close(bare, expected - bias, **close)
        torch.testing.assert_close(linear.linear_add(row, x, residual).double(), expected + residual.double(), **close)
        # Several ranks: the sum over ranks comes first, so nothing may be added inside.
        row.tp_size, row.reduce_results, row.skip_bias_add = 2, False, False
        again = linear.linear_add(row, x, residual).double()
        torch.testing.assert_close(again, expected + residual.double(), rtol=3 * ROUNDING[dtype], atol=6e-2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [3, 700])
def test_a_perceptron_from_end_to_end(one_rank, dtype, rows):
    first, before, low = in_int8(ColumnParallelLinear, dtype, 96, 256)
    second, behind, high = in_int8(RowParallelLinear, dtype, 256, 96)
    x, residual = random(rows, 96, seed=4, dtype=dtype), random(rows, 96, seed=5, dtype=dtype)
    with torch.inference_mode():
        out = linear.perceptron(first, second, x, residual).double()
    inner = F.gelu(by_definition(x, before) + low, approximate="tanh").float()
    expected = by_definition(inner, behind) + high + residual.double()
    assert (out - expected).norm() / expected.norm() < (5e-3 if dtype == torch.bfloat16 else 1e-3)
    exact = F.linear(F.gelu(F.linear(x.double(), before, low), approximate="tanh"), behind, high) + residual.double()
    assert (out - exact).norm() / exact.norm() < 2e-2 * 127 / int8.largest_weight()


def test_a_row_of_weights_that_is_zero(one_rank):
    layer = linear_layer(ColumnParallelLinear, torch.float32)
    with torch.no_grad():
        layer.weight[3] = 0
    int8.use_int8(layer)
    layer.quant_method.process_weights_after_loading(layer)
    with torch.inference_mode():
        out = layer(torch.cat((random(2, 32), torch.zeros(1, 32))))
    assert torch.equal(out[:, 3], layer.bias[3].expand(3)) and torch.equal(out[2], layer.bias)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_norm_shares_its_large_features_with_the_layer_behind(one_rank, dtype):
    """Two features a hundred times as large as others: the same product, and steps that are fine again."""
    norm, layer = nn.LayerNorm(256).to(dtype), linear_layer(ColumnParallelLinear, dtype, 256, 64)
    with torch.no_grad():
        norm.weight.copy_(random(256, seed=7).abs() + 0.5)
        norm.bias.copy_(random(256, seed=8))
        norm.weight[[3, 200]] *= 100
    x = random(50, 256, seed=9, dtype=dtype)
    exact = F.layer_norm(x.double(), (256,), norm.weight.double(), norm.bias.double()) @ layer.weight.double().T

    def error() -> float:
        features = F.layer_norm(x.double(), (256,), norm.weight.double(), norm.bias.double())
        return float((by_definition(features.float(), layer.weight) - exact).norm() / exact.norm())

    with torch.inference_mode():
        before = error()
        int8.balance(norm, layer)
        features = F.layer_norm(x.double(), (256,), norm.weight.double(), norm.bias.double())
        torch.testing.assert_close(features @ layer.weight.double().T, exact, rtol=1e-12, atol=1e-9)
        assert error() < before / 3


def test_the_setting_reaches_all_linear_layers_of_the_tower(one_rank):
    vision = {"hidden_size": 96, "intermediate_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
    tower = VisionModel(PaddleOCRVLConfig(vision_config=vision).vision_config)
    int8.use_int8(tower.vision_model.encoder)
    layers = [layer for layer in tower.modules() if isinstance(layer, LinearBase)]
    assert len(layers) == 2 * 4 and all(type(layer.quant_method) is int8.Int8LinearMethod for layer in layers)
    assert settings.in_int8({"VLM_PRECISION": "int8"}) and not settings.in_int8({"VLM_PRECISION": "auto"})


def test_products_are_exact_with_the_largest_numbers(one_rank):
    """Without VNNI a processor adds two products in 16 bits: 127 in each weight would be too much for it."""
    layer, _, _ = in_int8(ColumnParallelLinear, torch.float32, 640, 40)
    product = layer.int8_product
    whole = random(40, 640).sign()
    product.packed = torch.ops.onednn.qlinear_prepack((whole * int8.largest_weight()).to(torch.int8), None)
    product.scales = torch.ones(40)
    for rows in (1, 7, 512):
        x = torch.where(random(rows, 640, seed=rows) > 0, 255, 0).to(torch.uint8)
        expected = (x.double() - ZERO) @ whole.double().T * int8.largest_weight()
        assert torch.equal(product(x).double(), expected)


def test_what_cannot_be(one_rank, monkeypatch):
    inner = linear_layer(ColumnParallelLinear, torch.float32)
    inner.quant_method, layer = object(), nn.Sequential(inner)
    with pytest.raises(ValueError, match="VLM_PRECISION is 'int8', but the weights of 0 are quantised already; leave"):
        int8.use_int8(layer)
    with pytest.raises(ValueError, match="'int8', but --dtype is torch.float16; expected bfloat16 or float32"):
        int8.use_int8(linear_layer(ColumnParallelLinear, torch.float16))
    with pytest.raises(KeyError):  # not the memory beside
        quantise(torch.float16)
    with monkeypatch.context() as inexact, pytest.raises(ValueError, match="oneDNN's products are not exact on this"):
        inexact.setattr(int8, "multiply", lambda x, packed, *_: torch.zeros(len(x), 48))
        int8.largest_weight.cache_clear()
        int8.use_int8(layer)
    int8.largest_weight.cache_clear()
    monkeypatch.setattr(int8, "available", lambda: False)
    with pytest.raises(ValueError, match="VLM_PRECISION is 'int8', but Numba, or PyTorch's OpenMP runtime, is missing"):
        int8.use_int8(layer)
