# SPDX-License-Identifier: Apache-2.0
"""The check of a die asks for the attention that this stack's own code calls, with the same arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.npu.vllm_ascend.conftest import stack_here
from tests.npu.vllm_ascend.steps_of_attention import STEPS, serve
from vlm_server.die_check import one
from vlm_server.die_check.operators import OPERATORS

# State of a step -> what the check calls its attention, without the library.
NAMES = {
    "PrefillNoCache": "attention of whole prompts",
    "ChunkedPrefill": "attention of a prompt",
    "DecodeOnly": "attention of one token",
}
CPU = torch.device("cpu")


def form(value: Any) -> Any:
    """What two calls over different tokens have in common."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.ndim, value.device.type
    return "lengths" if isinstance(value, (list, tuple)) else value


class Recorded(TorchDispatchMode):
    """The calls of torch_npu's operators: each the name and its arguments' form, by the names of its schema."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in ("npu", "atb"):
            names = [argument.name for argument in func._schema.arguments]
            given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
            kept = {name: form(value) for name, value in given.items() if value is not None}
            self.calls.append((f"{func.namespace}::{func.__name__}", kept))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def served(layers: Any, runner: Any) -> dict[str, tuple[Any, Any]]:
    """State -> how its step writes new keys and values, and how it attends then."""
    with Recorded() as recorded:
        serve(layers("attention.attention_v1"), runner)
    # 0.11.1 writes those of single tokens by a call of their own.
    writes = [call for call in recorded.calls if "_npu_reshape_and_cache" in call[0]]
    attention = [call for call in recorded.calls if call not in writes]
    assert len(attention) == len(STEPS) <= len(writes) and all(write == writes[0] for write in writes)
    return {state: (writes[0], call) for (state, _, _), call in zip(STEPS, attention, strict=True)}


def asked(name: str) -> tuple[str, dict[str, Any]]:
    """The one call of torch_npu's with which the check tries an operator."""
    operator, call = next(one for one in OPERATORS if one.name == name), one.calls_of("npu")[name]
    with Recorded() as recorded:
        assert one.check(operator, call, CPU)["words"] == ""
    [found] = recorded.calls
    return found


def test_attention_is_asked_for_as_it_is_served(served: dict[str, tuple[Any, Any]]):
    names = {name for name in one.calls_of("npu") if name.startswith("attention of ")}
    # The one by which this stack attends, and none by which it does not.
    assert {name.removesuffix(", ATB") for name in names} == set(NAMES.values()) and len(names) == len(NAMES)
    for state, name in NAMES.items():
        own = f"{name}, ATB" if f"{name}, ATB" in names else name
        assert asked(own) == served[state][1], (stack_here(), state)
        assert asked("write to the cache") == served[state][0], (stack_here(), state)
