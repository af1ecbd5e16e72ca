# SPDX-License-Identifier: Apache-2.0
"""The kernel stage: upstream's own setup.py, CMake and generators, up to the compilers, which record and compile none.

Real: pip, torch_npu's wheel, find_package(Torch), upstream's files, the preprocessor, the linker. Simulated: CANN.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import atlas
from tests.images.ascend.conftest import Built

SOURCES = "/src/vllm-ascend"
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
# What the build finds beside catlass, of what upstream would download.
THIRD_PARTY = {"0.11.1": {"catlass"}, "0.23.0": {"catlass", "makeself"}}
# Of what upstream's requirements.txt names: types for its own checks, which nothing imports; and what 0.23.0 wants for
# triton, for memory pools of several nodes, and for guessing tokens (config/requirements/pyproject.toml).
NOT_NEEDED = {"pandas-stubs", "triton-ascend", "memfabric_hybrid", "memcache_hybrid", "arctic-inference"}
# Files and texts in the wheel that our patches bring.
PATCHED = {
    "0.11.1": ("ops/rotary_embedding.py", "npu_mrope(positions.contiguous(),"),
    "0.23.0": ("worker/block_table.py", "elif not HAS_TRITON"),
}
REQUIREMENTS = """
import importlib.metadata, json, pathlib, re
from packaging.requirements import Requirement
lacking = []
for line in pathlib.Path("/src/vllm-ascend/requirements.txt").read_text().splitlines():
    line = re.sub(r"#.*", "", line).strip()
    if not line or line.startswith("-"):
        continue
    wanted = Requirement(line)
    try:
        version = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if not version or not wanted.specifier.contains(version.partition("+")[0], prereleases=True):
        lacking.append(f"{wanted.name} {version}")
print(json.dumps(lacking))
"""


def compilations(built: Built) -> list[dict[str, Any]]:
    """The compilations of upstream's sources, in their order: tool, source, options, includes that only CANN has."""
    text = built.project.docker(
        "run", "--rm", "--entrypoint", "cat", built.image, "/var/log/simulated-compilers.jsonl"
    ).stdout
    entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [one for one in entries if one["source"].startswith(f"{SOURCES}/")]  # without CMake's own checks


@pytest.fixture(scope="module")
def compiled(kernels: Built) -> list[dict[str, Any]]:
    return compilations(kernels)


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


def test_every_kernel_is_compiled_for_a3(kernels: Built, compiled: list[dict[str, Any]]):
    check_compiled(compiled, kernels.stack.name, atlas.DEFAULT)


def test_the_build_downloads_nothing(kernels: Built):
    place = f"{SOURCES}/csrc/third_party/"
    found = kernels.project.docker("run", "--rm", "--entrypoint", "find", kernels.image, place, "-type", "f").stdout
    assert {line.removeprefix(place).partition("/")[0] for line in found.split()} == THIRD_PARTY[kernels.stack.name]


def test_the_binding_is_compiled_against_the_locked_torch_and_torch_npu(kernels: Built, compiled: list[dict[str, Any]]):
    [binding] = [one for one in compiled if one["source"] == f"{SOURCES}/csrc/torch_binding.cpp"]
    folders = {
        option[-1].removeprefix("-I") for option in binding["options"] if option[0].startswith(("-I", "-isystem"))
    }
    site = f"/opt/venv/{kernels.stack.environment}/lib/python3.11/site-packages"
    for package in ("torch/include", "torch_npu/include"):
        assert any(
            folder.replace("/opt/venv/vlm/", f"/opt/venv/{kernels.stack.environment}/") == f"{site}/{package}"
            for folder in folders
        ), folders
    assert not any(name.startswith(("torch", "c10", "ATen", "Python.h", "pybind11")) for name in binding["missing"])


def test_torch_is_the_cuda_build_where_there_is_one(kernels: Built):
    # Otherwise find_package(Torch) above shows nothing about the toolkit that it wants.
    options = ("--entrypoint", "/opt/venv/vlm/bin/python")
    command = ("run", "--rm", *options, "--env", "TORCH_DEVICE_BACKEND_AUTOLOAD=0", kernels.image)
    printed = kernels.project.docker(*command, "-c", "import torch; print(torch.version.cuda)").stdout
    assert printed.splitlines()[-1].startswith("12.")


def test_upstreams_requirements_are_met(kernels: Built):
    command = ("run", "--rm", "--entrypoint", "/opt/venv/vlm/bin/python", kernels.image, "-c", REQUIREMENTS)
    lacking = json.loads(kernels.project.docker(*command).stdout.splitlines()[-1])
    assert [name for name in lacking if name.split()[0] not in NOT_NEEDED] == []


def test_our_patches_are_in_the_wheel(ascend: Built):
    file, text = PATCHED[ascend.stack.name]
    code = (
        "import importlib.util, pathlib\n"
        "folder = pathlib.Path(importlib.util.find_spec('vllm_ascend').origin).parent\n"
        f"print({text!r} in (folder / {file!r}).read_text())"
    )
    assert ascend.python(code) == "True"


def test_the_operators_of_a3_are_in_the_image(ascend: Built, compiled: list[dict[str, Any]]):
    code = (
        "import importlib.util, json, pathlib\n"
        "folder = pathlib.Path(importlib.util.find_spec('vllm_ascend').origin).parent\n"
        "found = folder.glob('_cann_ops_custom/vendors/*/op_impl/ai_core/tbe/kernel/ascend910_93/*')\n"
        "print(json.dumps(sorted(path.name for path in found)))"
    )
    chip, *_ = OPERATORS[ascend.stack.name]["a3"]
    assert set(json.loads(ascend.python(code))) == for_device(compiled, chip)
