# SPDX-License-Identifier: Apache-2.0
"""What upstream's build makes of each product: names, and compilations as the simulated compilers recorded them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import atlas
from tests.images.ascend.conftest import Built

SOURCES = "/src/vllm-ascend"
# Where the simulated compilers record what they were given.
RECORD = "/var/log/simulated-compilers.jsonl"
# What a worker compares with its device: the name of each product in each stack's vllm-ascend.
DEVICE_TYPES = {
    "a3": {"0.11.1": "_910_93", "0.23.0": "A3"},
    "a2": {"0.11.1": "_910B", "0.23.0": "A2"},
    "310p": {"0.23.0": "_310P"},
}
# The operators that upstream builds for a product, and for no chip whose name it does not know: for which chip CANN's
# compiler is called, how many are for its cores, and some of them: of 0.23.0 the one that the language model calls, and
# on a 310P, where it calls none, all.
GROUPED = {"grouped_matmul_swiglu_quant_weight_nz_tensor_list"}
ON_310P = {"causal_conv1d_v310", "chunk_fwd_o", "chunk_gated_delta_rule_fwd_h", "recurrent_gated_delta_rule_v310"}
OPERATORS: dict[str, dict[str, tuple[str, int, set[str]]]] = {
    "0.11.1": {"a3": ("ascend910_93", 1, GROUPED), "a2": ("ascend910b", 1, GROUPED)},
    "0.23.0": {
        "a3": ("Ascend910_9391", 39, {"add_rms_norm_bias"}),
        "a2": ("Ascend910B1", 36, {"add_rms_norm_bias"}),
        "310p": ("Ascend310P3", 4, ON_310P),
    },
}
# Operators for the processor of the device.
ON_PROCESSOR = {
    "0.11.1": set(),
    "0.23.0": {
        "sparse_attn_sharedkv_metadata_aicpu",
        "store_kv_block_metadata_aicpu",
        "vllm_quant_lightning_indexer_metadata_aicpu",
    },
}
KERNELS = {
    "bgmv_expand",
    "bgmv_shrink",
    "get_masked_input_and_mask_kernel",
    "mla_preprocess_kernel",
    "sgmv_expand",
    "sgmv_shrink",
}
MORE_KERNELS = {"0.11.1": {"pos_encoding_kernels"}, "0.23.0": {"batch_matmul_transpose_kernel"}}


def compilations(built: Built) -> list[dict[str, Any]]:
    """The compilations of upstream's sources, in their order: tool, source, options, includes that only CANN has."""
    text = built.project.printed(built.image, "cat", RECORD)
    entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [one for one in entries if one["source"].startswith(f"{SOURCES}/")]  # without CMake's own checks


def for_device(compiled: list[dict[str, Any]], soc: str) -> set[str]:
    """Names of the sources that the device compiler was given for a chip."""
    entries = [one for one in compiled if one["tool"] == "bisheng" and [f"--cce-soc-version={soc}"] in one["options"]]
    return {Path(one["source"]).stem for one in entries}


def check_compiled(compiled: list[dict[str, Any]], stack: str, product: atlas.Product) -> None:
    """Every kernel and operator of the stack was compiled for the product's chip, and for no other."""
    chip, count, some = OPERATORS[stack][product.key]
    few = product.key == "310p"  # upstream leaves out kernels, and names no operator for the device's processor
    assert for_device(compiled, product.soc) == (set() if few else KERNELS | MORE_KERNELS[stack])
    operators = for_device(compiled, chip)
    assert len(operators) == count and some <= operators
    chips = {word for one in compiled for [word, *_] in one["options"] if word.startswith("--cce-soc-version")}
    assert chips == {f"--cce-soc-version={name}" for name in ({chip} if few else {product.soc, chip})}
    on_processor = {Path(one["source"]).stem for one in compiled if one["tool"].startswith("aarch64-target-")}
    assert on_processor == (set() if few else ON_PROCESSOR[stack])
