# SPDX-License-Identifier: Apache-2.0
"""The kernel stage for a chip of each other product of common/atlas.py, on the simulated CANN."""

from __future__ import annotations

from pathlib import Path

import pytest

import atlas
from tests.images.ascend.conftest import Built, compiled_for
from tests.images.ascend.test_kernels import check_compiled, compilations

# What a worker compares with its device, by product and stack.
DEVICE_TYPES = {"a2": {"0.11.1": "_910B", "0.23.0": "A2"}, "310p": {"0.23.0": "_310P"}}
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
    if product.stacks and ascend.stack.name not in product.stacks:
        pytest.skip(f"stack {ascend.stack.name} does not serve a {product.title}")
    return compiled_for(product, ascend, wheels)


def test_every_kernel_is_compiled_for_the_chip(product: atlas.Product, compiled: Built):
    check_compiled(compilations(compiled), compiled.stack.name, product)


def test_the_wheel_is_for_the_product(product: atlas.Product, compiled: Built):
    command = ("run", "--rm", "--entrypoint", "/opt/venv/vlm/bin/python", compiled.image, "-c", READ_WHEEL)
    printed = compiled.project.docker(*command).stdout
    assert f"__device_type__ = '{DEVICE_TYPES[product.key][compiled.stack.name]}'" in printed
