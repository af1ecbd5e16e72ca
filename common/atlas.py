# SPDX-License-Identifier: Apache-2.0
"""The Atlas products that vllm-ascend has kernels for, one row each: what differs between them in this bundle.

ATLAS in .env picks a row. The compose fragments, the stacks (config/stacks) and the guide repeat parts of it, and
tests/bundle/test_atlas.py holds them to this table. Sources: Dockerfile, Dockerfile.a3, Dockerfile.310p, setup.py and
docs/source/tutorials/310p.md of vllm-ascend v0.13.0rc1; tags of quay.io/ascend/cann; npu-smi's public reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tool_errors import UsageError


@dataclass(frozen=True)
class Product:
    """`key` is ATLAS, and the end of the image's name. `title` is what messages call it.

    `chips` matches npu-smi's names, `column` is in the header of its table. `socs` matches the values of SOC_VERSION,
    of which `soc` is the default. `cann` is its part of the tags of CANN's images. `dies` is how many a server has, or
    a card where servers differ. `dtype` is what its matrix units compute with. `graphs` says whether upstream captures
    graphs on it, `attention` which of our backends the tower takes. `upstream` is what vllm-ascend's documentation
    calls its support.
    """

    key: str
    title: str
    machines: str
    chips: str
    column: str
    socs: str
    soc: str
    cann: str
    dies: int
    dtype: str
    graphs: bool
    attention: str
    upstream: str


PRODUCTS = (
    Product(
        key="a3",
        title="A3",
        machines="Atlas 800I/800T A3, Atlas 900 A3 SuperPoD",
        chips=r"Ascend910$",
        column="Phy-ID",
        socs=r"ascend910_93\d\d",
        soc="ascend910_9391",
        cann="a3",
        dies=16,
        dtype="bfloat16",
        graphs=True,
        attention="npu-fusion",
        upstream="supported",
    ),
    Product(
        key="a2",
        title="A2",
        machines="Atlas 800I/800T A2, Atlas 300I A2 (910B1 to 910B4)",
        chips=r"910B\d",
        column="",
        socs=r"ascend910b[1-4](c|-1)?",
        soc="ascend910b1",
        cann="910b",
        dies=8,
        dtype="bfloat16",
        graphs=True,
        attention="npu-fusion",
        upstream="supported",
    ),
    Product(
        key="310p",
        title="310P",
        machines="Atlas 300I Duo, 300I Pro",
        chips=r"310P",
        column="",
        socs=r"ascend310p[1357]",
        soc="ascend310p1",
        cann="310p",
        dies=2,
        dtype="float16",
        graphs=False,
        attention="npu-atb",
        upstream="experimental",
    ),
)
KEYS = tuple(product.key for product in PRODUCTS)
DEFAULT = PRODUCTS[0]


def named(key: str) -> Product:
    """The product that ATLAS names, the default for an empty text. Raises UsageError."""
    for product in PRODUCTS:
        if product.key == (key or DEFAULT.key):
            return product
    raise UsageError(f"ATLAS is {key!r}; expected one of {', '.join(KEYS)}")


def of_soc(soc_version: str) -> Product:
    """The product that vllm-ascend was compiled for: `soc_version` is the chip's full name. Raises UsageError."""
    for product in PRODUCTS:
        if re.fullmatch(product.socs, soc_version):
            return product
    known = ", ".join(product.soc for product in PRODUCTS)
    raise UsageError(f"SOC_VERSION is {soc_version!r}; expected a chip's full name like {known}")


def of_chip(name: str, header: str) -> Product | None:
    """The product whose chip npu-smi calls `name`; None where no row fits, as for the older 910A (`910ProB`).

    The header of an A3's table has a column Phy-ID. `910B1` to `910B4` are A2, whatever the digit.
    """
    for product in PRODUCTS:
        if re.match(product.chips, name) and product.column in header:
            return product
    return None
