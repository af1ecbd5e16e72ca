# SPDX-License-Identifier: Apache-2.0
"""The program for a number of pages, as a list of PyTorch's own operators on a device.

The interpreter runs once, on the CPU, and every operator that depends on a page is recorded. Values that are the same
for all pages (sizes, anchors, factors of normalisations) are computed only then: a device would stand still while a
size came back to the host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from layout_server.interpreter import Interpreter
from paddle_program.program import UnknownProgram

MARK = "_slot_in_plan"  # a recorded tensor's attribute


@dataclasses.dataclass(frozen=True)
class Slot:
    """Stands for a tensor that depends on the page."""

    number: int


@dataclasses.dataclass
class Step:
    """``outputs`` are the results' numbers; ``free`` are those that no later step reads."""

    operator: torch._ops.OpOverload
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    outputs: tuple[int, ...]
    free: tuple[int, ...] = ()


class Recorder(TorchDispatchMode):
    """Lets every operator run, and records those with a marked input."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self._count = 0

    def mark(self, value: Tensor) -> int:
        setattr(value, MARK, self._count)
        self._count += 1
        return self._count - 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        given = each(args, slot_of), each(kwargs, slot_of)
        if any(isinstance(part, Slot) for part in leaves(given)):
            if func._schema.is_mutable:
                raise UnknownProgram(f"operator {func} writes to its input, which a plan cannot repeat")
            made = results if isinstance(results, (list, tuple)) else (results,)
            self.steps.append(Step(func, *given, tuple(self.mark(result) for result in made)))
        return results


class Plan:
    """``inputs`` are example pages, with the shapes that the plan takes."""

    def __init__(self, interpreter: Interpreter, inputs: Mapping[str, Tensor]) -> None:
        """Raises UnknownProgram."""
        recorder = Recorder()
        own = {name: value.clone() for name, value in inputs.items()}
        self._inputs = {name: recorder.mark(value) for name, value in own.items()}
        with torch.no_grad(), recorder:
            self._results = [slot_of(result) for result in interpreter.run(own)]
        self.steps = _needed(recorder.steps, self._results)

    def move_to(self, device: torch.device, moved: dict[int, tuple[Tensor, Tensor]]) -> None:
        """Put the constants onto a device. ``moved`` has those of the program's other plans, which share them."""

        def move(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if id(value) not in moved:  # with the tensor itself, so that its id stays its own
                moved[id(value)] = value, value.to(device)
            return moved[id(value)][1]

        for step in self.steps:
            step.arguments, step.keywords = each(step.arguments, move), each(step.keywords, move)
        self._results = each(self._results, move)

    def __call__(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        values = {number: inputs[name] for name, number in self._inputs.items()}

        def given(value: Any) -> Any:
            return values[value.number] if isinstance(value, Slot) else value

        for step in self.steps:
            results = step.operator(*each(step.arguments, given), **each(step.keywords, given))
            made = results if isinstance(results, (list, tuple)) else (results,)
            values.update(zip(step.outputs, made, strict=True))
            for number in step.free:
                del values[number]
        return [given(result) for result in self._results]


def _needed(steps: list[Step], results: list[Any]) -> list[Step]:
    """The steps that a result depends on, each with the values that no later step reads."""
    used = {part.number for part in leaves(results) if isinstance(part, Slot)}
    kept = []
    for step in reversed(steps):
        if used.isdisjoint(step.outputs):
            continue
        read = {part.number for part in leaves((step.arguments, step.keywords)) if isinstance(part, Slot)}
        step.free = tuple(sorted((read | set(step.outputs)) - used))
        used |= read | set(step.outputs)
        kept.append(step)
    return kept[::-1]


def slot_of(value: Any) -> Any:
    number = getattr(value, MARK, None) if isinstance(value, Tensor) else None
    return value if number is None else Slot(number)


def each(value: Any, change: Callable[[Any], Any]) -> Any:
    """``change`` of everything in lists, tuples and dictionaries."""
    if isinstance(value, (list, tuple)):
        return type(value)(each(part, change) for part in value)
    if isinstance(value, dict):
        return {name: each(part, change) for name, part in value.items()}
    return change(value)


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    else:
        yield value
