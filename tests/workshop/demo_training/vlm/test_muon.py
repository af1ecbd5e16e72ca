# SPDX-License-Identifier: Apache-2.0
"""The Muon step: orthogonal, scaled, and able to fit a small problem."""

import pytest
import torch

from demo_training.vlm.muon import Muon, orthogonalise


@pytest.mark.parametrize("shape", [(64, 64), (32, 96), (96, 32)])
def test_singular_values_are_near_one(shape):
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalise(torch.randn(shape), 5))
    # Five steps lift all but the very smallest ones, which a square random matrix has a few of.
    assert 0.5 < values.quantile(0.1) and values.max() < 1.4


def test_fits_a_linear_map():
    torch.manual_seed(0)
    layer, wanted, x = torch.nn.Linear(16, 16, bias=False), torch.randn(16, 16) / 4, torch.randn(256, 16)
    optimiser = Muon([layer.weight], lr=0.02)
    losses = []
    for _ in range(200):
        loss = (layer(x) - x @ wanted).pow(2).mean()
        losses.append(float(loss.detach()))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < 0.05 * losses[0]


def test_refuses_vectors():
    with pytest.raises(ValueError, match="is no matrix"):
        Muon([torch.nn.Parameter(torch.zeros(3))], lr=0.1)
