# SPDX-License-Identifier: Apache-2.0
"""The language model alone, in its own process: prefill of a batch of prompts, then decoding of all of them together.

    python -m model_bench.language --implementation ours --model DIR --folder DIR --dtype bfloat16 --device cpu

Answers a line of JSON on stdout for each line on stdin. ``run``: {"prefill": seconds, "decode": seconds}; ``save``: the
same, and DIR/<implementation>.json holds the log-probabilities of each prompt's next token and the chosen tokens.
Prompts are tokens of text, as many as a crop of the page has (those of its image and of the instruction).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch

from .crops import grids

Clock = Callable[[], float]
Dtype = Literal["bfloat16", "float32"]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "processor": time.process_time}
PROMPTS, NEW_TOKENS = 16, 64
# Of the instruction and the chat template around a crop.
INSTRUCTION = 12
# Most likely next tokens that are kept; vLLM gives no more.
KEPT = 20
FIRST_WORD, WORDS = 1000, 100_000


def prompts() -> list[list[int]]:
    """Random words, PROMPTS times the mean length of a crop's prompt; the same in every process."""
    places = grids()
    length = sum(rows * columns for _, rows, columns in places) // 4 // len(places) + INSTRUCTION
    generator = torch.Generator().manual_seed(2)
    return torch.randint(FIRST_WORD, WORDS, (PROMPTS, length), generator=generator).tolist()


def most_likely(logprobs: list[tuple[int, float]]) -> dict[str, float]:
    """As JSON spells it: token -> log-probability."""
    return {str(token): value for token, value in logprobs}


class Vllm:
    """vLLM's engine in this process, one step after another: the first step holds the whole prefill."""

    def __init__(self, model: Path, dtype: Dtype, device: str, prompts: list[list[int]], clock: Clock) -> None:
        from vllm import LLM

        self.prompts, self.clock = prompts, clock
        self.engine = LLM(
            str(model),
            dtype=dtype,
            enforce_eager=True,
            max_model_len=2048,
            max_num_batched_tokens=16384,
            max_num_seqs=PROMPTS,
            enable_prefix_caching=False,
            mm_processor_cache_gb=0,
            skip_mm_profiling=True,
        ).llm_engine

    def run(self, kept: int | None = None) -> tuple[dict[str, float], dict[str, Any]]:
        from vllm import SamplingParams

        greedy = SamplingParams(max_tokens=NEW_TOKENS, temperature=0, ignore_eos=True, logprobs=kept)
        for number, prompt in enumerate(self.prompts):
            self.engine.add_request(str(number), {"prompt_token_ids": prompt}, greedy)
        began = self.clock()
        # Of requests that generate; vLLM's type names those that embed, too.
        outputs: list[Any] = self.engine.step()
        first = self.clock()
        if len(outputs) != len(self.prompts):
            raise RuntimeError(f"one step prefilled {len(outputs)} of {len(self.prompts)} prompts")
        while self.engine.has_unfinished_requests():
            outputs = self.engine.step()
        seconds = {"prefill": first - began, "decode": self.clock() - first}
        answers = [output.outputs[0] for output in sorted(outputs, key=lambda output: int(output.request_id))]
        likely = (
            []
            if kept is None
            else [
                most_likely([(token, each.logprob) for token, each in answer.logprobs[0].items()]) for answer in answers
            ]
        )
        return seconds, {"logprobs": likely, "tokens": [list(answer.token_ids) for answer in answers]}


class Transformers:
    """One batch through ``generate``; the prompts are of one length, so nothing is padded."""

    def __init__(self, model: Path, dtype: Dtype, device: str, prompts: list[list[int]], clock: Clock) -> None:
        # Runs in the environment `reference`; the VLM server's transformers is older.
        from transformers import PaddleOCRVLForConditionalGeneration  # type: ignore[attr-defined]

        whole = PaddleOCRVLForConditionalGeneration.from_pretrained(model, dtype=getattr(torch, dtype))
        self.clock = clock
        self.model, self.ids = whole.to(device).eval(), torch.tensor(prompts, device=device)

    def run(self, kept: int | None = None) -> tuple[dict[str, float], dict[str, Any]]:
        stamps = []

        def stamp(ids: torch.Tensor, _scores: Any, **_: Any) -> torch.Tensor:
            # Called after every token; reading one waits for the device.
            stamps.append((ids[0, -1].item(), self.clock()))
            return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)

        began = self.clock()
        output = self.model.generate(
            self.ids,
            attention_mask=torch.ones_like(self.ids),
            do_sample=False,
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            stopping_criteria=[stamp],
            output_logits=kept is not None,
            return_dict_in_generate=True,
        )
        seconds = {"prefill": stamps[0][1] - began, "decode": stamps[-1][1] - stamps[0][1]}
        likely = []
        if kept is not None:
            values, tokens = output.logits[0].float().log_softmax(-1).topk(kept)
            likely = [
                most_likely(list(zip(*pair, strict=True)))
                for pair in zip(tokens.tolist(), values.tolist(), strict=True)
            ]
        return seconds, {"logprobs": likely, "tokens": output.sequences[:, self.ids.shape[1] :].tolist()}


def load(implementation: str, *words: Any) -> Vllm | Transformers:
    if implementation == "transformers":
        return Transformers(*words)
    if implementation == "in_tree":
        from .in_tree import register

        register()
    return Vllm(*words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--implementation", choices=("ours", "in_tree", "transformers"), required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    arguments = parser.parse_args()
    # Libraries print to stdout as they load; answers go to what stdout was.
    answers, sys.stdout = os.fdopen(os.dup(1), "w", buffering=1), sys.stderr
    os.dup2(2, 1)
    model = load(
        arguments.implementation,
        arguments.model,
        arguments.dtype,
        arguments.device,
        prompts(),
        CLOCKS[arguments.clock],
    )
    answers.write(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads()}) + "\n")
    for line in sys.stdin:
        if line.strip() not in ("run", "save"):
            raise ValueError(f"unknown request {line.strip()!r}")
        with torch.inference_mode():
            seconds, said = model.run(KEPT if line.strip() == "save" else None)
        if line.strip() == "save":
            (arguments.folder / f"{arguments.implementation}.json").write_text(json.dumps(said))
        answers.write(json.dumps(seconds) + "\n")


if __name__ == "__main__":
    main()
