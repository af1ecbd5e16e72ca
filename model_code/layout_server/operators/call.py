# SPDX-License-Identifier: Apache-2.0
"""One operation as its function sees it: inputs, attributes, and the type of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from paddle_program.call import OperatorCall

Operator = Callable[["Call"], Any]


class Call(OperatorCall[Tensor]):
    """With PyTorch's tensors. A plan replays the computation, so only numbers that are the same for all pages may be
    read."""

    def optional(self, index: int) -> Tensor | None:
        return self[index] if self.has(index) else None

    def numbers(self, index: int) -> list[int]:
        if not self._known[index]:
            raise self.unknown(f"input {index} depends on the page; expected sizes that are the same for all")
        value = self._values[index]
        parts = value if isinstance(value, list) else [self[index]]
        return [int(number) for part in parts for number in part.reshape(-1).tolist()]

    def scalar(self, index: int, element: torch.dtype) -> Tensor:
        """An input of one element as a tensor without axes."""
        return self[index].reshape(()).to(element)

    @property
    def element(self) -> torch.dtype:
        """The first result's."""
        return element_of(self.type.element)


def element_of(name: str) -> torch.dtype:
    """NumPy's name of a type of elements as torch's."""
    found = getattr(torch, name)
    assert isinstance(found, torch.dtype), name
    return found
