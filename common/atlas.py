# SPDX-License-Identifier: Apache-2.0
"""The Atlas products that the stacks serve, one row each, with their differences in this bundle.

ATLAS in .env picks a row. The compose fragments, the stacks (config/stacks) and the guide repeat parts of it, and
tests/bundle/test_atlas.py holds them to this table. Sources: Dockerfile, Dockerfile.a3 and setup.py of vllm-ascend
v0.23.0, its Dockerfile.310p and tutorial PaddleOCR-VL.md; tags of quay.io/ascend/cann; npu-smi's
public reports.
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
    `dies` is how many a server has. `stacks` can serve it; empty: all. `dtype` is its number format. `graphs`: steps
    are captured. `float32`: it multiplies such matrices. `attention` is the tower's backend if VLM_ATTENTION names
    none; empty: the plugin's own choice.
    """

    key: str
    title: str
    machines: str
    chips: str
    column: str
    socs: tuple[str, ...]
    cann: str
    dies: int
    stacks: tuple[str, ...] = ()
    dtype: str = "bfloat16"
    graphs: bool = True
    float32: bool = True
    attention: str = ""

    @property
    def soc(self) -> str:
        """The default of SOC_VERSION."""
        return self.socs[0]

    def on(self, stack: str | None) -> Product:
        """This product. Raises UsageError if `stack` cannot serve it; a stack without a name is not checked."""
        if stack and self.stacks and stack not in self.stacks:
            raise UsageError(
                f"STACK {stack} does not serve a {self.title} ({self.machines}); set STACK={self.stacks[-1]}"
            )
        return self

    def check_layout(self, device: str) -> None:
        """Raise UsageError where the layout server cannot compute on the dies that LAYOUT_DEVICE names."""
        if device != "cpu" and not self.float32:
            raise UsageError(
                f"LAYOUT_DEVICE is {device!r}, but the layout server computes in float32, which a {self.title} does "
                "not multiply; set LAYOUT_DEVICE=cpu"
            )


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
    # What vllm-ascend calls experimental (docs/decisions/0422-inference-cards.md). A server with four Duo cards.
    Product(
        key="310p",
        title="310P",
        machines="Atlas 300I Duo, 300I Pro",
        chips=r"310P\d?$",
        column="",
        socs=tuple(f"ascend310p{end}" for end in ("1", "3", "5", "7")),
        cann="310p",
        dies=8,
        stacks=("0.23.0",),
        dtype="float16",
        graphs=False,
        float32=False,
        attention="npu-atb-310p",
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
