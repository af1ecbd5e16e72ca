# SPDX-License-Identifier: Apache-2.0
"""python -m vlm_server.die_check.one {npu,cpu}: every operator on the one device that this process sees; JSON.

[{"name", "library", "error", "tolerance", "seconds", "words"}], `words` empty where the operator gives what it should.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vlm_server.serving import running_stack

from . import on_cpu, shapes
from .operators import OPERATORS, Operator


def check(operator: Operator, call: Any, device: torch.device) -> dict[str, Any]:
    """The finding of one operator; what it raises is a finding too."""
    began, error, words = time.monotonic(), float("inf"), ""
    try:
        with torch.inference_mode():
            error = operator.error(call(*(value.to(device) for value in operator.inputs())))
        if error > operator.tolerance:
            words = "differs from double precision by more than the tolerance"
    except Exception as problem:  # a kernel raises what it likes, and the next operator may still run
        words = f"{type(problem).__name__}: {problem}"[:500]
    return {
        "name": operator.name,
        "library": operator.library,
        # JSON has no infinity.
        "error": error if error < float("inf") else None,
        "tolerance": operator.tolerance,
        "seconds": round(time.monotonic() - began, 3),
        "words": words,
    }


def calls_of(kind: str) -> dict[str, Callable[..., Tensor]]:
    """What serves on a device of this kind, `npu` or `cpu`; an `npu` is of SOC_VERSION's product, and served by the
    stack of this environment."""
    if kind == "cpu":
        own = on_cpu.CALLS
    elif shapes.PRODUCT.key == "310p":
        own = importlib.import_module(f"{__package__}.on_310p").CALLS
    else:
        own = importlib.import_module(f"{__package__}.on_npu").calls(running_stack())
    return {**on_cpu.EVERYWHERE, **own}


def check_all(kind: str, device: torch.device) -> list[dict[str, Any]]:
    """Findings of all operators that serve on a device of this kind."""
    calls = calls_of(kind)
    tried = [one for one in OPERATORS if one.name in calls]
    return [check(operator, calls[operator.name], device) for operator in tried]


def as_served(npu: Any) -> None:
    """The switches that vllm-ascend's runner, and its worker on a 310P, set: tiles of weights are kept, and no operator
    is compiled while it is called, as it would be on a 310P by default."""
    npu.config.allow_internal_format = True
    npu.set_compile_mode(jit_compile=False)


def main(kind: str) -> None:
    torch.manual_seed(0)
    if kind == "npu":
        # Loads CANN; the operators' names exist from here on.
        importlib.import_module("torch_npu")
        device = torch.device("npu:0")
        as_served(vars(torch)["npu"])
    else:
        device = torch.device("cpu")
    print(json.dumps(check_all(kind, device)))


if __name__ == "__main__":
    main(sys.argv[1])
