# SPDX-License-Identifier: Apache-2.0
"""The kernel stage for a chip of A2, on the simulated CANN. A 310P's is not built here (docs/decisions/0422)."""

from __future__ import annotations

from pathlib import Path

import pytest

import atlas
from tests.images.ascend.conftest import Built, compiled_for
from tests.images.ascend.test_kernels import check_compiled, compilations

# What a worker compares with its device, by product and stack.
DEVICE_TYPES = {"a2": {"0.11.1": "_910B", "0.23.0": "A2"}}
READ_WHEEL = """
import glob, zipfile
[wheel] = glob.glob("/dist/*.whl")
print(zipfile.ZipFile(wheel).read("vllm_ascend/_build_info.py").decode())
"""


@pytest.fixture(scope="module", params=["a2"])
def product(request: pytest.FixtureRequest) -> atlas.Product:
    return atlas.named(request.param)


@pytest.fixture(scope="module")
def compiled(product: atlas.Product, ascend: Built, wheels: Path) -> Built:
    return compiled_for(product, ascend, wheels)


def test_every_kernel_is_compiled_for_the_chip(product: atlas.Product, compiled: Built):
    check_compiled(compilations(compiled), compiled.stack.name, product)


def test_the_wheel_is_for_the_product(product: atlas.Product, compiled: Built):
    command = ("run", "--rm", "--entrypoint", "/opt/venv/vlm/bin/python", compiled.image, "-c", READ_WHEEL)
    printed = compiled.project.docker(*command).stdout
    assert f"__device_type__ = '{DEVICE_TYPES[product.key][compiled.stack.name]}'" in printed
