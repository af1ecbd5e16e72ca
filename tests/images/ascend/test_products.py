# SPDX-License-Identifier: Apache-2.0
"""The kernel stage for a chip of each other product of common/atlas.py, on the simulated CANN."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import atlas
from tests.images.ascend.conftest import Built, compiled_for
from tests.images.ascend.test_kernels import KERNELS, MORE_KERNELS, for_device

# What a worker compares with its device, by product and stack.
DEVICE_TYPES = {"a2": {"0.11.1": "_910B", "0.13.0": "A2"}}
# Upstream's own operators.
OPERATORS: dict[str, dict[str, set[str]]] = {
    "a2": {
        "0.11.1": {"grouped_matmul_swiglu_quant_weight_nz_tensor_list"},
        "0.13.0": {
            "grouped_matmul_swiglu_quant_weight_nz_tensor_list",
            "lightning_indexer",
            "sparse_flash_attention",
            "matmul_allreduce_add_rmsnorm",
        },
    },
}
READ_WHEEL = """
import glob, zipfile
[wheel] = glob.glob("/dist/*.whl")
print(zipfile.ZipFile(wheel).read("vllm_ascend/_build_info.py").decode())
"""


@pytest.fixture(
    scope="module", params=[product for product in atlas.PRODUCTS if product != atlas.DEFAULT], ids=lambda one: one.key
)
def product(request: pytest.FixtureRequest) -> atlas.Product:
    return request.param


@pytest.fixture(scope="module")
def compiled(product: atlas.Product, ascend: Built, wheels: Path) -> Built:
    return compiled_for(product, ascend, wheels)


def test_every_kernel_is_compiled_for_the_chip(product: atlas.Product, compiled: Built):
    options = ("--rm", "--entrypoint", "cat")
    text = compiled.project.docker("run", *options, compiled.image, "/var/log/simulated-compilers.jsonl").stdout
    entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    name = compiled.stack.name
    assert for_device(entries, product.soc) == KERNELS | MORE_KERNELS[name]
    operators = for_device(entries, f"ascend{product.cann}")
    assert operators == OPERATORS[product.key][name]


def test_the_wheel_is_for_the_product(product: atlas.Product, compiled: Built):
    command = ("run", "--rm", "--entrypoint", "/opt/venv/vlm/bin/python", compiled.image, "-c", READ_WHEEL)
    printed = compiled.project.docker(*command).stdout
    assert f"__device_type__ = '{DEVICE_TYPES[product.key][compiled.stack.name]}'" in printed
