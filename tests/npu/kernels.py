# SPDX-License-Identifier: Apache-2.0
"""Which of torch's operators the real torch_npu has a kernel of its own for.

For an operator without one torch_npu copies to the host, computes there and copies back; the device waits meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

#: They only say where a tensor's values lie, so no kernel of a device runs.
VIEWS = set(
    "_unsafe_view detach expand lift_fresh permute select slice split split_with_sizes squeeze t transpose unbind "
    "unsqueeze view".split()
)
#: torch makes them of others that are in the plan: views and a copy.
COMPOSITE = {"pixel_unshuffle"}


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
