# SPDX-License-Identifier: Apache-2.0
"""Which operators are called, and which of torch's the real torch_npu has a kernel of its own for.

For an operator without one torch_npu copies to the host, computes there and copies back; the device waits meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: They only say where a tensor's values lie, so no kernel of a device runs.
VIEWS = set(
    "_unsafe_view detach expand lift_fresh permute select slice split split_with_sizes squeeze t transpose unbind "
    "unsqueeze view".split()
)
#: torch makes them of others that are in the plan: views and a copy.
COMPOSITE = {"pixel_unshuffle"}
#: A CPU's, for attention; on an NPU torch_npu has its own behind scaled_dot_product_attention.
ATTENTION = {"_scaled_dot_product_flash_attention_for_cpu.default"}


def has_kernel(name: str) -> bool:
    """Whether torch_npu registered the operator, like ``sort.stable``, or its variant with a given result, which torch
    then calls."""
    base, _, overload = name.partition(".")
    overload = overload.removeprefix("default")
    _, known = torch._C._jit_get_operation(f"aten::{base}")
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{base}.{variant}".removesuffix("."), "PrivateUse1")
        for variant in (overload, f"{overload}_out" if overload else "out")
        if variant in known
    )


def without_kernel(names: Iterable[str]) -> set[str]:
    return {name for name in names if name.partition(".")[0] not in VIEWS | COMPOSITE and not has_kernel(name)}


class Recorded(TorchDispatchMode):
    """Names of the operators that are called, by namespace."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func).replace(".", "::", 1))
        return func(*args, **(kwargs or {}))

    def of(self, namespace: str) -> set[str]:
        head = f"{namespace}::"
        return {name.removeprefix(head) for name in self.names if name.startswith(head)}
