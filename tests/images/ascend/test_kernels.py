# SPDX-License-Identifier: Apache-2.0
"""The kernel stage: upstream's own setup.py, CMake and generators, up to the compilers, which record and compile none.

Real: pip, torch_npu's wheel, find_package(Torch), upstream's files, the preprocessor, the linker. Simulated: CANN.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import atlas
from tests.images.ascend.compiled import OPERATORS, SOURCES, check_compiled, compilations, for_device
from tests.images.ascend.conftest import Built

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


@pytest.fixture(scope="module")
def compiled(kernels: Built) -> list[dict[str, Any]]:
    return compilations(kernels)


def test_every_kernel_is_compiled_for_a3(kernels: Built, compiled: list[dict[str, Any]]):
    check_compiled(compiled, kernels.stack.name, atlas.DEFAULT)


def test_the_build_downloads_nothing(kernels: Built):
    place = f"{SOURCES}/csrc/third_party/"
    found = kernels.project.printed(kernels.image, "find", place, "-type", "f")
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


def test_torch_is_the_cuda_build_where_there_is_one(ascend: Built, facts: dict[str, Any]):
    """Otherwise find_package(Torch) above shows nothing about the toolkit that it wants."""
    assert facts["cuda"].startswith("12.")


def test_upstreams_requirements_are_met(kernels: Built):
    printed = kernels.project.printed(kernels.image, "/opt/venv/vlm/bin/python", "-c", REQUIREMENTS)
    lacking = json.loads(printed.splitlines()[-1])
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
