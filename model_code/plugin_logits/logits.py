# SPDX-License-Identifier: Apache-2.0
"""Inputs and logits of every position of a case, taken out of the engine.

The case goes through the whole engine: processor, scheduler, vision tower, paged attention. Only the sampler sees no
more than the last position, so a hook keeps the language model's output of the prefill, and the model's own
``compute_logits`` is applied to it.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm import LLM, SamplingParams

from reference.cases import Case

from .engine import model_of, request


def logits(llm: LLM, case: Case) -> dict[str, torch.Tensor]:
    """Inputs and logits of one case; names as in ``ReferenceModel.logits``, patches in merge-block order."""
    model = model_of(llm)
    kept: dict[str, torch.Tensor] = {}
    patches: list[torch.Tensor] = []
    grids: list[torch.Tensor] = []

    def keep_inputs(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # vLLM's own families run the tower once for images and once for videos.
        patches.append(args[0].clone())
        grids.append(torch.as_tensor(args[1] if len(args) > 1 else kwargs["grid_thw"]))

    def keep_states(_module: Any, _args: Any, output: torch.Tensor) -> None:
        kept["hidden"] = output.clone()

    hooks = [
        model.visual.register_forward_pre_hook(keep_inputs, with_kwargs=True),
        model.register_forward_hook(keep_states),
    ]
    try:
        parameters = SamplingParams(max_tokens=1, temperature=0)
        (output,) = llm.generate([request(llm, case)], parameters, use_tqdm=False)
    finally:
        for hook in hooks:
            hook.remove()
    if patches:
        kept |= {"pixel_values": torch.cat(patches), "image_grid_thw": torch.cat(grids)}
    ids = torch.tensor(output.prompt_token_ids)
    hidden = kept.pop("hidden")[: len(ids)]
    with torch.inference_mode():
        scores = model.compute_logits(hidden)
    return {"input_ids": ids, "logits": scores.float(), **kept}
