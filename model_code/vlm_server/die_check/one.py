# SPDX-License-Identifier: Apache-2.0
"""python -m vlm_server.die_check.one {npu,cpu}: every operator on the one device that this process sees; JSON.

[{"name", "library", "error", "tolerance", "seconds", "words"}], `words` empty where the operator gives what it should.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

import torch

from . import on_cpu, shapes
from .operators import OPERATORS, Operator

# Product of common/atlas.py -> the module with its calls, where that is not on_npu.
CALLS_OF = {"310p": "on_310p"}


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


def check_all(kind: str, device: torch.device) -> list[dict[str, Any]]:
    """Findings of all operators that serve on a device of this kind, `npu` or `cpu`; an `npu` is of SOC_VERSION's
    product."""
    module = CALLS_OF.get(shapes.PRODUCT.key, "on_npu")
    own = on_cpu.CALLS if kind == "cpu" else importlib.import_module(f"{__package__}.{module}").CALLS
    calls = {**on_cpu.EVERYWHERE, **own}
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
