# SPDX-License-Identifier: Apache-2.0
"""Graphs of an NPU, captured and replayed on the CPU under torch_npu's own names.

Simulated: a capture records the operators that PyTorch dispatches, and a replay calls them again on the same memory. As
on a device, a capture computes nothing that is kept: what it has made is NaN until the first replay. A replay stops
before a group of operators until the group's event was recorded, and goes on with the arguments that it got between
`graph_task_update_begin` and `_end`.

Not simulated: streams (everything runs in turn), memory that is given back and used again, what a device refuses to
capture.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@dataclass
class Call:
    """One operator with its arguments and the memory of its results."""

    operator: Callable[..., Any]
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    results: list[Tensor]

    def again(self) -> None:
        for kept, made in zip(self.results, tensors(self.operator(*self.args, **self.named)), strict=True):
            if kept.data_ptr() != made.data_ptr():
                kept.copy_(made)


class Recorder(TorchDispatchMode):
    """Keeps the calls that are made while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call | Event] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        results = func(*args, **named)
        if func.is_view:
            return results  # the calls after it have the view
        self.calls.append(Call(func, args, named, tensors(results)))
        return results


@dataclass
class Event:
    """torch.npu.ExternalEvent: a replay passes it once it was recorded, and then it must be recorded anew."""

    recorded: bool = False
    waiting: NPUGraph | None = None

    def wait(self, _: Any) -> None:
        assert NPUGraph.capturing, "only graphs wait here"
        NPUGraph.capturing.recorder.calls.append(self)

    def reset(self, _: Any) -> None:
        """What `wait` does in a replay."""

    def record(self, _: Any) -> None:
        self.recorded = True
        if graph := self.waiting:
            self.waiting = None
            graph.go_on()


@dataclass
class NPUGraph:
    """torch.npu.NPUGraph; `place` is the next call of a replay."""

    recorder: Recorder = field(default_factory=Recorder)
    place: int = 0
    capturing: ClassVar[NPUGraph | None] = None

    def replay(self) -> None:
        self.place = 0
        self.go_on()

    def go_on(self) -> None:
        calls = self.recorder.calls
        while self.place < len(calls):
            call = calls[self.place]
            if isinstance(call, Call):
                call.again()
            elif call.recorded:
                call.recorded = False
            else:
                call.waiting = self
                return
            self.place += 1


@contextlib.contextmanager
def graph(captured: NPUGraph, pool: Any = None) -> Iterator[None]:
    """torch.npu.graph."""
    NPUGraph.capturing = captured
    try:
        with captured.recorder:
            yield
    finally:
        NPUGraph.capturing = None
    given: set[int] = set()
    made: dict[int, Tensor] = {}
    for call in captured.recorder.calls:
        if isinstance(call, Call):
            given |= {place(value) for value in tensors((call.args, dict(call.named)))} - made.keys()
            made |= {place(value): value for value in call.results if place(value) not in given}
    for value in made.values():
        if value.is_floating_point():
            value.fill_(torch.nan)


@dataclass
class Group:
    """torch_npu's handle of a group: its calls, first in the graph that has them, then with new arguments."""

    calls: list[Call | Event]
    first: int
    last: int = 0


# Groups that a capture has begun, and updates, which record by themselves.
OPEN: list[Group] = []
UPDATES: list[tuple[Group, Recorder]] = []
# A library's registrations end with the object.
KEPT: list[torch.library.Library] = []


def group_begin(_: Any) -> None:
    assert NPUGraph.capturing, "a group of operators is a part of a graph"
    calls = NPUGraph.capturing.recorder.calls
    OPEN.append(Group(calls, len(calls)))


def group_end(_: Any) -> Group:
    group = OPEN.pop()
    group.last = len(group.calls)
    return group


def update_begin(_: Any, group: Group) -> None:
    recorder = Recorder()
    UPDATES.append((group, recorder))
    recorder.__enter__()


def leave() -> None:
    """Ends what an error broke off: an update that is never left would record, and keep, whatever comes after it."""
    OPEN.clear()
    while UPDATES:
        UPDATES.pop()[1].__exit__(None, None, None)


def update_end(_: Any) -> None:
    group, recorder = UPDATES.pop()
    recorder.__exit__(None, None, None)
    assert len(recorder.calls) == group.last - group.first, (
        "an update names the group's operators, no more and no fewer"
    )
    for index, call in enumerate(recorder.calls, group.first):
        old = group.calls[index]
        assert isinstance(call, Call) and isinstance(old, Call) and call.operator == old.operator
        # The memory of its results is the graph's.
        group.calls[index] = Call(call.operator, call.args, call.named, old.results)


def install(npu: types.ModuleType, patches: pytest.MonkeyPatch) -> None:
    """Put the stand-ins into torch.npu, for as long as `patches` holds."""
    if not KEPT:
        # Of vllm-ascend's compiled extension: another tensor over the same memory.
        KEPT.append(torch.library.Library("_C_ascend", "FRAGMENT"))
        KEPT[0].define("weak_ref_tensor(Tensor input) -> Tensor")
        KEPT[0].impl("weak_ref_tensor", lambda value: value.detach(), "CPU")
    stream = types.SimpleNamespace(wait_stream=lambda _: None, synchronize=lambda: None)
    names: dict[str, Any] = {
        "NPUGraph": NPUGraph,
        "graph": graph,
        "ExternalEvent": Event,
        "graph_task_group_begin": group_begin,
        "graph_task_group_end": group_end,
        "graph_task_update_begin": update_begin,
        "graph_task_update_end": update_end,
        "current_stream": lambda *_: stream,
        "stream": lambda *_: contextlib.nullcontext(),
        "Stream": lambda *_, **__: stream,
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "graph_pool_handle": lambda: (0, 0),
    }
    for name, stand_in in names.items():
        patches.setattr(npu, name, stand_in)
    # As torch_npu itself has it, which later releases call.
    patches.setattr("torch_npu._C._weak_ref_tensor", lambda value: value.detach())
