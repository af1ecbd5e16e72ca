# SPDX-License-Identifier: Apache-2.0
"""Linear layers by oneDNN: their values, what is part of a product, and what keeps vLLM's own way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from vllm.model_executor.layers.linear import ColumnParallelLinear, RowParallelLinear
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding

from tests.plugin.layers import linear_layer, one_rank
from vlm_models import onednn
from vlm_models.paddleocr_vl import linear

__all__ = ["one_rank"]  # a fixture


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("rows", [1, 7, 300])
def test_what_is_fused_into_a_product(one_rank, dtype, tolerance, rows):
    x, residual = torch.randn(rows, 32).to(dtype), torch.randn(rows, 48).to(dtype)
    layers: list[Any] = [linear_layer(kind, dtype) for kind in (ColumnParallelLinear, RowParallelLinear)]
    onednn.use_onednn(*layers)
    column, row = layers
    weight, bias = column.weight.double(), column.bias.double()
    product = F.linear(x.double(), weight, bias)
    for layer in layers:
        layer.quant_method.process_weights_after_loading(layer)
        assert linear.ready(layer) == onednn.multiplies(dtype)
        assert layer.weight.numel() == 0 or not linear.ready(layer), "the plain weights are to be given back"
    with torch.inference_mode():
        torch.testing.assert_close(column(x).double(), product, rtol=tolerance, atol=tolerance)
        for approximate in ("tanh", "none"):
            expected = F.gelu(product, approximate=approximate)
            torch.testing.assert_close(
                linear.linear_gelu(column, x, approximate).double(), expected, rtol=tolerance, atol=tolerance
            )
        added = linear.linear_add(row, x, residual).double()
        torch.testing.assert_close(added, product + residual.double(), rtol=tolerance, atol=tolerance)
        # Several ranks: the sum over ranks comes first, so nothing may be added inside.
        row.tp_size, row.reduce_results = 2, False
        row.skip_bias_add = False
        torch.testing.assert_close(linear.linear_add(row, x, residual).double(), added, rtol=2e-2, atol=6e-2)


def test_quantised_layers_are_left_alone(one_rank):
    layer = linear_layer(ColumnParallelLinear, torch.float32)
    layer.quant_method = object()
    onednn.use_onednn(layer)
    assert type(layer.quant_method) is object


@pytest.mark.parametrize("shared", [False, True])
def test_the_choice_of_a_token_unless_it_shares_the_embeddings(one_rank, shared):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings = VocabParallelEmbedding(300, 32, params_dtype=torch.float32)
            self.chooses: Any = ParallelLMHead(300, 32, params_dtype=torch.float32)
            if shared:
                self.chooses.weight = self.embeddings.weight
            nn.init.normal_(self.chooses.get_parameter("weight"))

    model = Model()
    head, x = model.chooses, torch.randn(5, 32)
    weight = head.weight.detach().clone()
    onednn.use_onednn(model)
    assert isinstance(head.quant_method, onednn.OneDnnLinearMethod) != shared
    assert not isinstance(model.embeddings.quant_method, onednn.OneDnnLinearMethod)
    head.quant_method.process_weights_after_loading(head)
    with torch.inference_mode():
        torch.testing.assert_close(head.quant_method.apply(head, x), F.linear(x, weight), rtol=1e-5, atol=1e-5)
        model.embeddings(torch.tensor([299]))
