# SPDX-License-Identifier: Apache-2.0
"""vLLM with the plugin as an engine in this process: a case as its request, and inputs and logits of every position."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

# vLLM reads these while it is imported.
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

import torch
from PIL import Image
from vllm import LLM, SamplingParams, TokensPrompt

from reference.cases import Case
from vlm_server.cache_size import request_gib

LENGTH = 16384  # tokens of a case and its answer


def start(directory: Path, dtype: Literal["float16", "bfloat16", "float32"] = "float32") -> LLM:
    """The engine in this process, so that its model can be hooked."""
    # Read while the engine starts.
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(request_gib(directory / "config.json", dtype, LENGTH)))
    return LLM(
        str(directory),
        dtype=dtype,
        enforce_eager=True,
        max_model_len=LENGTH,
        max_num_batched_tokens=LENGTH,  # one step for a case: the hook keeps the last one's states
        max_num_seqs=4,
        enable_prefix_caching=False,
        mm_processor_cache_gb=0,
        skip_mm_profiling=True,
    )


def model_of(llm: LLM) -> Any:
    """The plugin's model inside the engine."""
    return llm.llm_engine.model_executor.driver_worker.worker.model_runner.model


def request(llm: LLM, case: Case) -> TokensPrompt:
    """A case as vLLM's offline interface takes it: as tokens, so that ``case.answer`` follows the prompt unchanged."""
    ids = llm.get_tokenizer().encode(case.prompt, add_special_tokens=False) + case.answer
    if not case.images and not case.videos:
        return TokensPrompt(prompt_token_ids=ids)
    return TokensPrompt(
        prompt_token_ids=ids,
        multi_modal_data=media_of(case),
        mm_processor_kwargs={"min_pixels": case.min_pixels, "max_pixels": case.max_pixels},
    )


def media_of(case: Case) -> dict[str, list[Any]]:
    """Modality -> items, without modalities that have none."""
    media: dict[str, list[Any]] = {"image": [Image.fromarray(image) for image in case.images], "video": case.videos}
    return {name: items for name, items in media.items() if items}


def logits(llm: LLM, case: Case) -> dict[str, torch.Tensor]:
    """Inputs and logits of one case; names as in ``ReferenceModel.logits``, patches in merge-block order.

    The case goes through the whole engine: processor, scheduler, vision tower, paged attention. Only the sampler sees
    no more than the last position, so a hook keeps the language model's output of the prefill, and the model's own
    ``compute_logits`` is applied to it.
    """
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
