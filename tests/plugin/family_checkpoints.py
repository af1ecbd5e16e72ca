# SPDX-License-Identifier: Apache-2.0
"""Random weights of the other families, and what transformers and vLLM's models with our inputs make of them.

Of each family the tests run where this environment's vLLM has it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from reference.cases import save_cases
from reference.families import FAMILIES
from served_weights.catalog import DEFAULT_FILE, Catalog
from tests.plugin.agreement import check_logits
from tests.plugin.chat import send
from tests.plugin.families import CONVERSATIONS, Conversation
from tests.plugin.programs import ONE_LAYER, run_python
from tests.plugin.server_process import launched
from vlm_server.serving import running_stack

# Family -> the entry of config/models.yaml whose weights the checkpoint passes for.
ENTRIES = {"qwen2_vl": "Qwen2-VL-2B-Instruct", "hunyuan_vl": "HunyuanOCR"}
SERVED = [
    name
    for name, entry in ENTRIES.items()
    if running_stack() in (Catalog.load(DEFAULT_FILE).models[entry].stacks or ())
]
# Greedy tokens of each answer.
NEW_TOKENS = 12


class Checkpoint:
    """Random weights of one family, in a folder that passes for MODELS_DIR: in small layers or in published ones.

    ``form`` is how its prompts are written.
    """

    def __init__(
        self, family: str, folder: Path, reference: Path, *, small: bool = True, entry: str | None = None
    ) -> None:
        self.family, self.folder, self.path = family, folder, folder / (entry or ENTRIES[family])
        self.form = FAMILIES[family]
        words = ("--family", family, "--out", self.path, *(["--small"] if small else ONE_LAYER))
        run_python(reference, "-m", "random_checkpoints.make", *words)


class Made:
    """What transformers made of a family's conversations: inputs, logits, and the first tokens of the answers."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        reference: Path,
        conversations: Mapping[str, Conversation] | None = None,
        new_tokens: int = NEW_TOKENS,
    ) -> None:
        self.family, self.folder, self.checkpoint = checkpoint.family, checkpoint.folder, checkpoint.path
        self.conversations = conversations or CONVERSATIONS[self.family]
        self.cases, out = self.folder / "cases.safetensors", self.folder / "reference.safetensors"
        save_cases(self.cases, [one.case(checkpoint.form) for one in self.conversations.values()])
        shared = ("--model", self.checkpoint, "--cases", self.cases, "--out", out)
        run_python(reference, "-m", "random_checkpoints.logits", *shared, "--new_tokens", new_tokens)
        self.reference = load_file(out)

    def of(self, index: int, name: str) -> torch.Tensor:
        return self.reference[f"{index}.{name}"]


@contextmanager
def starting(checkpoint: Checkpoint) -> Iterator[Future[tuple[str, int]]]:
    """A server with the checkpoint, started by the launcher with the entry's own settings, in float32: its base URL and
    process, once it is ready. It starts while the caller does something else."""
    environment = {"MODELS_DIR": str(checkpoint.folder), "VLM_MODEL": checkpoint.path.name}
    server = launched({**environment, "VLM_ARGS": "--dtype float32"}, checkpoint.folder / "vlm.log")
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        yield pool.submit(stack.enter_context, server)


def check_greedy(made: Made, served: str, index: int, body: dict[str, Any]) -> None:
    """The server sees transformers' prompt, and answers with its tokens."""
    answer = send(served, body)
    name = list(made.conversations)[index]
    assert answer.status_code == 200, f"{name}: {answer.text[:500]}"
    document = answer.json()
    assert document["prompt_token_ids"] == made.of(index, "input_ids").tolist(), name
    assert document["choices"][0]["token_ids"] == made.of(index, "greedy").tolist(), name


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
