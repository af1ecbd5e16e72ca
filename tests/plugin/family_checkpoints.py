# SPDX-License-Identifier: Apache-2.0
"""Random weights of the other families, and what transformers and vLLM's models with our inputs make of them.

Of each family the tests run where this environment's vLLM has it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from reference.cases import save_cases
from reference.families import FAMILIES
from served_weights.catalog import DEFAULT_FILE
from tests.plugin.agreement import check_logits
from tests.plugin.families import CONVERSATIONS
from tests.plugin.programs import run_python
from vlm_server.serving import Serving, running_stack

# Family -> the entry of config/models.yaml whose weights the checkpoint passes for.
ENTRIES = {"qwen2_vl": "Qwen2-VL-2B-Instruct", "hunyuan_vl": "HunyuanOCR"}
SERVED = [name for name, entry in ENTRIES.items() if running_stack() in Serving.load(DEFAULT_FILE).models[entry].stacks]
# Greedy tokens of each answer.
NEW_TOKENS = 12


class Checkpoint:
    """Random weights of one family, in a folder that passes for MODELS_DIR: in small layers or in published ones."""

    def __init__(self, family: str, folder: Path, reference: Path, *, small: bool = True) -> None:
        self.family, self.folder, self.path = family, folder, folder / ENTRIES[family]
        words = ("--family", family, "--out", self.path, *(["--small"] if small else []))
        run_python(reference, "-m", "reference.random_checkpoint", *words)


class Made:
    """What transformers made of a family's conversations."""

    def __init__(self, checkpoint: Checkpoint, reference: Path) -> None:
        self.family, self.folder, self.checkpoint = checkpoint.family, checkpoint.folder, checkpoint.path
        self.conversations = CONVERSATIONS[self.family]
        self.cases, out = self.folder / "cases.safetensors", self.folder / "reference.safetensors"
        save_cases(self.cases, [one.case(FAMILIES[self.family]) for one in self.conversations.values()])
        shared = ("--model", self.checkpoint, "--cases", self.cases, "--out", out)
        run_python(reference, "-m", "reference.logits", *shared, "--new_tokens", NEW_TOKENS)
        self.reference = load_file(out)

    def of(self, index: int, name: str) -> torch.Tensor:
        return self.reference[f"{index}.{name}"]


def check_agreement(made: Made) -> None:
    """Inputs are equal, logits within the bars; prints the figures."""
    out = made.folder / "plugin.safetensors"
    run_python(sys.executable, "-m", "plugin_logits", "--model", made.checkpoint, "--cases", made.cases, "--out", out)
    ours = load_file(out)
    for index, name in enumerate(made.conversations):
        torch.testing.assert_close(ours[f"{index}.input_ids"], made.of(index, "input_ids"), rtol=0, atol=0)
        kinds = [kind for kind in ("pixel_values", "pixel_values_videos") if f"{index}.{kind}" in made.reference]
        if kinds:
            patches = torch.cat([made.of(index, kind).flatten(1) for kind in kinds])
            torch.testing.assert_close(ours[f"{index}.pixel_values"], patches, rtol=0, atol=1e-6)
        check_logits(ours[f"{index}.logits"], made.of(index, "logits"), f"{made.family}, {name}")
