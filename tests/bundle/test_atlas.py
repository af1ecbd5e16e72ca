# SPDX-License-Identifier: Apache-2.0
"""common/atlas.py is the one table of products: what repeats a part of it agrees with it."""

from __future__ import annotations

import re

import pytest
import yaml

import atlas
from bundle.compose import dies, images
from tests.support.paths import ROOT
from tool_errors import UsageError

STACKS = sorted((ROOT / "config/stacks").glob("*.yaml"))


@pytest.mark.parametrize("stack", STACKS, ids=lambda path: path.stem)
def test_the_stacks_have_each_product_that_they_serve_and_no_other(stack):
    services = yaml.safe_load(stack.read_text())["services"]
    served = [product for product in atlas.PRODUCTS if not product.stacks or stack.stem in product.stacks]
    assert set(services) == {"vlm-cpu", *(f"vlm-{product.key}" for product in served)}
    first = services[f"vlm-{atlas.DEFAULT.key}"]["build"]
    for product in served:
        build = services[f"vlm-{product.key}"]["build"]
        cann = build["args"]["CANN_IMAGE"]
        assert re.fullmatch(
            rf"\$\{{CANN_IMAGE:-quay\.io/ascend/cann:[\w.]+-{product.cann}-ubuntu22\.04-py3\.11\}}", cann
        )
        assert cann.split("cann:")[1].split("-")[0].upper() == build["args"]["CANN_VERSION"]
        assert build["args"]["SOC_VERSION"] == product.soc
        own = {"CANN_IMAGE", "SOC_VERSION"}
        shared = [{name: value for name, value in one["args"].items() if name not in own} for one in (first, build)]
        assert shared[0] == shared[1] and build["additional_contexts"] == first["additional_contexts"]


def test_the_dockerfile_builds_the_default():
    text = (ROOT / "Dockerfile.ascend").read_text()
    assert set(re.findall(r"^ARG SOC_VERSION=(\S+)", text, re.MULTILINE)) == {atlas.DEFAULT.soc}
    assert re.findall(r"^ARG CANN_IMAGE=\S+:[\w.]+-(\w+)-ubuntu", text, re.MULTILINE) == [atlas.DEFAULT.cann]


@pytest.mark.parametrize("product", atlas.PRODUCTS, ids=atlas.KEYS)
def test_each_product_has_a_fragment_with_all_its_dies(product: atlas.Product):
    assert dies.dies_of((dies.FOLDER / f"{product.key}.yaml").read_text()) == list(range(product.dies))
    assert dies.chosen({"ATLAS": product.key}) == product.key and dies.chosen({"NPU_IDS": "0-3"}) == "0-3"


def test_compose_takes_the_fragment_and_the_image_of_the_product():
    text = (ROOT / "config/compose/ascend.yaml").read_text()
    default = f"${{ATLAS:-{atlas.DEFAULT.key}}}"
    assert f"dies/${{NPU_IDS:-{default}}}.yaml" in text and images.vlm(default, "${STACK:-0.11.1}") in text
    assert f'service: "vlm-{default}"' in dies.fragment("0")


@pytest.mark.parametrize("product", atlas.PRODUCTS, ids=atlas.KEYS)
def test_a_chips_name_leads_to_its_product(product: atlas.Product):
    assert {atlas.of_soc(soc).key for soc in product.socs} == {product.key} == {atlas.named(product.key).key}


@pytest.mark.parametrize(
    "soc",
    ["", "910c", "310p", "ascend910", "ascend910b", "ascend910_9391x", "ascend910_9399", "ascend910b1c", "ascend310"],
)
def test_short_and_wrong_names(soc: str):
    with pytest.raises(UsageError, match="SOC_VERSION is"):
        atlas.of_soc(soc)


def test_a_stack_that_does_not_serve_a_product_is_refused_with_the_one_that_does():
    card = atlas.named("310p")
    for stack in (path.stem for path in STACKS):
        if stack in card.stacks:
            assert card.on(stack) is card
        else:
            with pytest.raises(UsageError, match=f"STACK {stack} does not serve a 310P .*; set STACK=0.23.0$"):
                card.on(stack)
        assert all(product.on(stack) for product in atlas.PRODUCTS if product != card)


def test_the_layout_server_stays_off_a_card_without_float32():
    for product in atlas.PRODUCTS:
        product.check_layout("cpu")
        if product.float32:
            product.check_layout("npu:1")
    with pytest.raises(UsageError, match="LAYOUT_DEVICE is 'npu', .* a 310P does not multiply; set LAYOUT_DEVICE=cpu"):
        atlas.of_soc("ascend310p3").check_layout("npu")


def test_an_older_ascend910_is_no_a3():
    assert atlas.of_chip("Ascend910", "Chip  Phy-ID") == atlas.named("a3")
    assert atlas.of_chip("Ascend910", "Chip  Device") is None and atlas.of_chip("910ProB", "Chip") is None
