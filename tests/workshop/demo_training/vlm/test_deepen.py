# SPDX-License-Identifier: Apache-2.0
"""More layers change nothing at first."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from demo_training.vlm.config import DemoConfig
from demo_training.vlm.deepen import deepen
from demo_training.vlm.model import DemoModel


def answer(model: DemoModel) -> torch.Tensor:
    torch.manual_seed(3)
    pixels = torch.rand(1, 3, 56, 112)
    with torch.no_grad():
        return model.eval()(model.see(pixels), 4, 8, torch.arange(4), torch.arange(9)[None])[0]


def test_a_deeper_model_begins_as_good_as_the_one_before():
    torch.manual_seed(1)
    config = DemoConfig()
    small = DemoModel(dataclasses.replace(config, text_layers=config.text_layers - 2, vision_layers=5))
    deep = DemoModel(config)
    deep.load_state_dict(deepen(dict(small.state_dict()), config))
    torch.testing.assert_close(answer(deep), answer(small), rtol=1e-4, atol=1e-4)
    assert sum(p.numel() for p in deep.parameters()) > sum(p.numel() for p in small.parameters())


def test_as_many_layers_are_taken_as_they_are():
    torch.manual_seed(1)
    model = DemoModel(DemoConfig())
    same = deepen(dict(model.state_dict()), DemoConfig())
    assert all(torch.equal(same[name], value) for name, value in model.state_dict().items())


def test_layers_are_not_taken_away():
    model = DemoModel(DemoConfig())
    with pytest.raises(ValueError, match="more layers than the model"):
        deepen(dict(model.state_dict()), dataclasses.replace(DemoConfig(), text_layers=4))
