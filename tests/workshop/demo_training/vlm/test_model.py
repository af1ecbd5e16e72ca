# SPDX-License-Identifier: Apache-2.0
"""The training model computes what transformers' PaddleOCR-VL computes, on the tracked weights."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import PaddleOCRVLForConditionalGeneration

from demo_training.vlm.batches import normalise
from demo_training.vlm.config import DemoConfig
from demo_training.vlm.crops import PATCH
from demo_training.vlm.model import DemoModel
from demo_training.vlm.tokenizer import IMAGE, prompt_ids

DEMO = Path(__file__).resolve().parents[4] / "models" / "demo" / "PaddleOCR-VL"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(DEMO / "tokenizer.json"))


@pytest.mark.parametrize("rows, columns", [(2, 6), (8, 30), (28, 10)])
def test_logits_equal_the_reference(tokenizer, rows, columns):
    weights = {name: tensor.float() for name, tensor in load_file(DEMO / "model.safetensors").items()}
    ours = DemoModel(DemoConfig()).eval()
    ours.load_state_dict({name: tensor for name, tensor in weights.items() if name != "lm_head.weight"})
    reference = PaddleOCRVLForConditionalGeneration.from_pretrained(DEMO, dtype=torch.float32).eval()

    torch.manual_seed(rows)
    pixels = torch.randint(0, 256, (1, rows * PATCH, columns * PATCH, 3), dtype=torch.uint8)
    before, tail = prompt_ids(tokenizer)
    after = torch.tensor([tail + tokenizer.encode("The quick brown fox, 1984.").ids])
    images = rows * columns // 4
    ids = torch.tensor([before + [tokenizer.token_to_id(IMAGE)] * images + after[0].tolist()])
    patches = normalise(pixels).unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).permute(0, 2, 3, 1, 4, 5).flatten(0, 2)
    with torch.no_grad():
        logits, _ = ours(ours.see(normalise(pixels)), rows, columns, torch.tensor(before), after)
        wanted = reference(
            input_ids=ids,
            mm_token_type_ids=(ids == tokenizer.token_to_id(IMAGE)).int(),
            pixel_values=patches,
            image_grid_thw=torch.tensor([[1, rows, columns]]),
        ).logits[:, -after.shape[1] :]
    torch.testing.assert_close(logits, wanted, rtol=1e-3, atol=1e-3)
    assert torch.equal(logits.argmax(-1), wanted.argmax(-1))
