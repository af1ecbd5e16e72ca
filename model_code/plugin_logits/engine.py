# SPDX-License-Identifier: Apache-2.0
"""vLLM with the plugin as an engine in this process, and a case as its request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

# vLLM reads these while it is imported.
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

from PIL import Image
from vllm import LLM, TokensPrompt

from reference.cases import Case


def start(directory: Path, dtype: Literal["float16", "bfloat16", "float32"] = "float32") -> LLM:
    """The engine in this process, so that its model can be hooked."""
    return LLM(
        str(directory),
        dtype=dtype,
        enforce_eager=True,
        max_model_len=8192,
        max_num_batched_tokens=16384,
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
