# SPDX-License-Identifier: Apache-2.0
"""Inputs and logits of every position by vLLM with the plugin: the other side of ``reference.logits``.

    python -m reference.plugin_logits --model DIR --cases cases.safetensors --out plugin.safetensors [--dtype float32]

Runs in the VLM server's environment, which cannot hold transformers 5 as well; tensors are exchanged as files. The cases go through the engine (processor, scheduler, vision tower, paged attention); only the sampler sees no
more than the last position, so a hook keeps the language model's output of the prefill and the model's own
``compute_logits`` is applied to it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

import torch
from PIL import Image
from safetensors.torch import save_file
from vllm import LLM, SamplingParams

from .cases import Case, load_cases


def start(directory: Path, dtype: str = "float32") -> LLM:
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


def model_of(llm: LLM) -> torch.nn.Module:
    """The model inside the engine."""
    return llm.llm_engine.model_executor.driver_worker.worker.model_runner.model


def request(llm: LLM, case: Case) -> dict:
    """A case as vLLM's offline interface takes it, as tokens, so that ``case.answer`` follows as it is."""
    ids = llm.get_tokenizer().encode(case.prompt, add_special_tokens=False) + case.answer
    if not case.images:
        return {"prompt_token_ids": ids}
    return {
        "prompt_token_ids": ids,
        "multi_modal_data": {"image": [Image.fromarray(image) for image in case.images]},
        "mm_processor_kwargs": {"min_pixels": case.min_pixels, "max_pixels": case.max_pixels},
    }


def run(llm: LLM, case: Case) -> dict[str, torch.Tensor]:
    """Inputs and logits of one case; names as in ``reference.logits``, patches in merge-block order."""
    model, kept = model_of(llm), {}

    def keep_inputs(_module, args, _kwargs):
        kept["pixel_values"] = args[0].clone()
        kept["image_grid_thw"] = torch.tensor(args[1])

    def keep_states(_module, _args, output):
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
    ids = torch.tensor(output.prompt_token_ids)
    hidden = kept.pop("hidden")[: len(ids)]
    with torch.inference_mode():
        logits = model.compute_logits(hidden)
    return {"input_ids": ids, "logits": logits.float(), **kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default="float32")
    arguments = parser.parse_args()
    llm = start(arguments.model, arguments.dtype)
    results = {}
    for index, case in enumerate(load_cases(arguments.cases)):
        for name, value in run(llm, case).items():
            results[f"{index}.{name}"] = value.contiguous()
    save_file(results, arguments.out, metadata={"torch": torch.__version__})


if __name__ == "__main__":
    main()
