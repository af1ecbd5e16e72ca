# SPDX-License-Identifier: Apache-2.0
"""The demo weights on real crops: the same tokens alone and in a crowd, and bfloat16 against the float32 reference."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoTokenizer

from reference.cases import Case, save_cases
from tests.plugin.programs import run_python
from tests.support.paths import ROOT

IMAGE = "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"
PROMPT = f"<|begin_of_sentence|>User: {IMAGE}OCR:\nAssistant: "
# Of positions whose text is given: how many must agree; how sure the reference may have been where another token is
# chosen; and the cosine of the logits, on the mean.
BARS = {"bfloat16": (0.995, 0.5, 0.9998), "int8": (0.995, 0.5, 0.9995)}

pytestmark = pytest.mark.model


def cut(tokenizer, text: str) -> list[int]:
    """The longest tokens of at most three letters, from left to right, as in the training of the demo weights: of the
    tokenizer's own cuts they are so unsure that rounding decides."""
    entries = {tokenizer.decode([token]): token for token in range(len(tokenizer))}
    ids, start = [], 0
    while start < len(text):
        ends = range(min(len(text), start + 4), start, -1)
        end = next(end for end in ends if len(text[start:end].strip()) <= 3 and text[start:end] in entries)
        ids.append(entries[text[start:end]])
        start = end
    return ids


def crops(tokenizer=None, limit: int = 20) -> list[Case]:
    """Text blocks of the tracked pages, followed by their text where a tokenizer is given."""
    cases = []
    for name in ("letter", "invoice", "report"):
        page = Image.open(ROOT / f"tests/data/{name}.png").convert("RGB")
        for block in json.loads((ROOT / f"tests/data/{name}.json").read_text())["blocks"]:
            if block["label"] != "text" or not block.get("text"):
                continue
            left, top, right, bottom = block["bbox"]
            image = np.asarray(page.crop((left - 4, top - 4, right + 4, bottom + 4)))
            answer = cut(tokenizer, block["text"]) if tokenizer else []
            cases.append(Case(PROMPT, [image], answer=answer))
    return cases[:limit]


@pytest.mark.long
def test_the_same_tokens_alone_and_in_a_crowd(demo_weights, tmp_path, monkeypatch):
    """Also when a step's images take several passes of the tower."""
    monkeypatch.setenv("VLM_PATCHES_PER_PASS", "1500")
    save_cases(tmp_path / "cases.safetensors", crops(limit=8))
    words = ("--model", demo_weights, "--cases", tmp_path / "cases.safetensors", "--out", tmp_path / "tokens.json")
    run_python(sys.executable, ROOT / "tests/plugin/crowd.py", *words)
    tokens = json.loads((tmp_path / "tokens.json").read_text())
    assert len(tokens["alone"]) == 8 and all(len(one) > 1 for one in tokens["alone"])
    assert tokens["crowd"] == tokens["alone"] and tokens["again"] == tokens["alone"]


@pytest.fixture(scope="module")
def reference(demo_weights, reference_python, tmp_path_factory):
    """(cases, their file, the reference's logits in float32)."""
    folder = tmp_path_factory.mktemp("reading")
    cases = crops(AutoTokenizer.from_pretrained(demo_weights))
    save_cases(folder / "cases", cases)
    words = ("--model", demo_weights, "--cases", folder / "cases", "--out", folder / "theirs")
    run_python(reference_python, "-m", "random_checkpoints.logits", *words)
    return cases, folder / "cases", load_file(folder / "theirs")


@pytest.mark.parametrize("precision", ["bfloat16", pytest.param("int8", marks=pytest.mark.long)])
def test_it_chooses_the_reference_tokens(demo_weights, reference, tmp_path, monkeypatch, precision):
    """Teacher-forced: the reference in float32, ours in bfloat16 and in 8-bit integers, at every position of the
    text."""
    monkeypatch.setenv("VLM_PRECISION", precision)
    cases, file, theirs = reference
    words = ("--model", demo_weights, "--cases", file, "--out", tmp_path / "ours", "--dtype", "bfloat16")
    run_python(sys.executable, "-m", "plugin_logits", *words)
    ours = load_file(tmp_path / "ours")
    margins, flips, cosines = [], [], []
    for index, case in enumerate(cases):
        # The last token of the prompt chooses the first of the text.
        text = slice(-len(case.answer) - 1, None)
        chosen, expected = (side[f"{index}.logits"][text] for side in (ours, theirs))
        best = expected.topk(2).values
        margin = best[:, 0] - best[:, 1]
        margins.append(margin)
        flips.append(margin[chosen.argmax(-1) != expected.argmax(-1)])
        cosines.append(torch.nn.functional.cosine_similarity(chosen.double(), expected.double(), dim=-1))
    count, differing, cosine = len(torch.cat(margins)), torch.cat(flips), torch.cat(cosines).mean().item()
    agreement = 1 - len(differing) / count
    largest = differing.max().item() if len(differing) else 0.0
    print(
        f"{precision}: {count} positions, {len(differing)} differ ({agreement:.4%} agree), largest margin there "
        f"{largest:.3f}, cosine {cosine:.6f}"
    )
    least, most, alike = BARS[precision]
    assert count > 300 and agreement >= least and largest <= most and cosine >= alike
