# SPDX-License-Identifier: Apache-2.0
"""The Atlas products that the stacks serve, one row each: what differs between them in this bundle.

ATLAS in .env picks a row. The compose fragments, the stacks (config/stacks) and the guide repeat parts of it, and
tests/bundle/test_atlas.py holds them to this table. Sources: Dockerfile, Dockerfile.a3 and setup.py of vllm-ascend
v0.23.0; tags of quay.io/ascend/cann; npu-smi's public reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tool_errors import UsageError


@dataclass(frozen=True)
class Product:
    """`key` is ATLAS, and the end of the image's name. `title` is what messages call it.

    `chips` matches npu-smi's names, `column` is in the header of its table. `socs` are the values of SOC_VERSION, as
    setup.py has them at both pinned commits; the first is the default. `cann` is its part of the tags of CANN's images.
    `dies` is how many a server has.
    """

    key: str
    title: str
    machines: str
    chips: str
    column: str
    socs: tuple[str, ...]
    cann: str
    dies: int

    @property
    def soc(self) -> str:
        """SOC_VERSION where nobody names one."""
        return self.socs[0]


PRODUCTS = (
    Product(
        key="a3",
        title="A3",
        machines="Atlas 800I/800T A3, Atlas 900 A3 SuperPoD",
        chips=r"Ascend910$",
        column="Phy-ID",
        socs=tuple(f"ascend910_93{digits}" for digits in (91, 81, 72, 92, 82, 62)),
        cann="a3",
        dies=16,
    ),
    Product(
        key="a2",
        title="A2",
        machines="Atlas 800I/800T A2, Atlas 300I A2 (910B1 to 910B4)",
        chips=r"910B\d",
        column="",
        socs=tuple(f"ascend910b{end}" for end in ("1", "2", "2c", "3", "4", "4-1")),
        cann="910b",
        dies=8,
    ),
)
KEYS = tuple(product.key for product in PRODUCTS)
DEFAULT = PRODUCTS[0]
# What no stack serves, by a part of its chips' names (docs/decisions/0420-one-table-of-products.md).
UNSERVED = "310p"
WHY_UNSERVED = (
    "Atlas 300I DUO (310P): no stack of this bundle serves it; vllm-ascend removed it before 0.13.0 and brings it back "
    "in 0.14.0; use A3 or A2, or HARDWARE=cpu"
)


def unserved(name: str) -> bool:
    """Whether a name, of ATLAS, SOC_VERSION or npu-smi, is of a product that no stack serves."""
    return UNSERVED in name.lower()


def named(key: str) -> Product:
    """The product that ATLAS names, the default for an empty text. Raises UsageError."""
    if unserved(key):
        raise UsageError(WHY_UNSERVED)
    for product in PRODUCTS:
        if product.key == (key or DEFAULT.key):
            return product
    raise UsageError(f"ATLAS is {key!r}; expected one of {', '.join(KEYS)}")


def of_soc(soc_version: str) -> Product:
    """The product that vllm-ascend was compiled for: `soc_version` is the chip's full name. Raises UsageError."""
    if unserved(soc_version):
        raise UsageError(WHY_UNSERVED)
    for product in PRODUCTS:
        if soc_version in product.socs:
            return product
    known = "; ".join(", ".join(product.socs) for product in PRODUCTS)
    raise UsageError(f"SOC_VERSION is {soc_version!r}; expected a chip's full name, one of {known}")


def of_chip(name: str, header: str) -> Product | None:
    """The product whose chip npu-smi calls `name`; None where no row fits, as for the older 910A (`910ProB`).

    The header of an A3's table has a column Phy-ID. `910B1` to `910B4` are A2, whatever the digit.
    """
    for product in PRODUCTS:
        if re.match(product.chips, name) and product.column in header:
            return product
    return None
