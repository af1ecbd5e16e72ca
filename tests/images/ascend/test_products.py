# SPDX-License-Identifier: Apache-2.0
"""The image of each other product of common/atlas.py, with the arguments that compose has where ATLAS names the
product, on the simulated CANN. It is built up to the stage `platform`: nothing later depends on the product."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import atlas
from bundle.compose import images
from tests.images.ascend.compiled import DEVICE_TYPES, OPERATORS, RECORD, check_compiled, compilations, for_device
from tests.images.ascend.conftest import Built, built_for
from tests.images.project import Project
from tests.support.paths import ROOT

READ_PACKAGE = """
import importlib.util, json, os, pathlib, runpy
folder = pathlib.Path(importlib.util.find_spec("vllm_ascend").origin).parent
device = runpy.run_path(str(folder / "_build_info.py"))["__device_type__"]
operators = [path.name for path in folder.glob("_cann_ops_custom/vendors/*/op_impl/ai_core/tbe/kernel/ascend*/*")]
print(json.dumps([device, os.environ["SOC_VERSION"], sorted(operators)]))
"""
RECORDED = f"""
FROM platform AS recorded
COPY --from=kernels {RECORD} {RECORD}
"""


@pytest.fixture(
    scope="module", params=[product for product in atlas.PRODUCTS if product != atlas.DEFAULT], ids=lambda one: one.key
)
def product(request: pytest.FixtureRequest) -> atlas.Product:
    return request.param


@pytest.fixture(scope="module")
def image(
    product: atlas.Product, ascend: Built, ascend_wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Built:
    """The stage `platform` for the product, which is made only where the compiled extension loads, with the compilers'
    record. The stage that has it is large, and not needed as an image."""
    stack = ascend.stack.name
    if product.stacks and stack not in product.stacks:
        pytest.skip(f"stack {stack} does not serve a {product.title}")
    service = Project(ascend.project.name, ascend.project.env | {"ATLAS": product.key}).config()["services"]["vlm"]
    assert service["image"] == images.vlm(product.key, stack)
    differing = service["build"]["args"].items() - ascend.project.config()["services"]["vlm"]["build"]["args"].items()
    assert differing == {("SOC_VERSION", product.soc)}, "of the arguments, only the chip is the product's"
    file = tmp_path_factory.mktemp("file") / "Dockerfile.ascend"
    file.write_text((ROOT / "Dockerfile.ascend").read_text() + RECORDED)
    return built_for(product, "recorded", ascend, ascend_wheels, str(file))


@pytest.fixture(scope="module")
def compiled(image: Built) -> list[dict[str, Any]]:
    return compilations(image)


def test_every_kernel_is_compiled_for_the_chip(product: atlas.Product, image: Built, compiled: list[dict[str, Any]]):
    check_compiled(compiled, image.stack.name, product)


def test_the_image_is_for_the_product(product: atlas.Product, image: Built, compiled: list[dict[str, Any]]):
    stack = image.stack.name
    chip, *_ = OPERATORS[stack][product.key]
    device, soc, operators = json.loads(image.python(READ_PACKAGE))
    assert (device, soc) == (DEVICE_TYPES[product.key][stack], product.soc)
    assert set(operators) == for_device(compiled, chip)
