# SPDX-License-Identifier: Apache-2.0
"""Where vllm-ascend's sampler makes its random numbers, and where it reads them."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.npu.vllm_ascend.conftest import NEW

STEP, OWN = "the step's stream", "a stream of its own"


class Numbers(torch.Tensor):
    """What is made of such a tensor is one too, and knows on which stream it was made and by which it is kept."""

    made: list[tuple[torch.Tensor, str]] = []
    kept: list[tuple[int, str]] = []

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        value = super().__torch_function__(function, types, arguments, options or {})
        if function is torch.empty_like:
            cls.made.append((value, stream[-1]))
        return value

    def record_stream(self, on) -> None:
        type(self).kept.append((id(self), on))


stream = [STEP]


class Stream(str):
    def wait_stream(self, other: str) -> None:
        """Order is kept by what a CPU does one after the other; only memory is looked at here."""


@contextlib.contextmanager
def switched(to: str) -> Iterator[None]:
    stream.append(to)
    yield
    stream.pop()


@pytest.fixture
def sampler(platform, monkeypatch: pytest.MonkeyPatch):
    module = importlib.import_module("vllm_ascend.sample.sampler")
    npu: Any = torch.npu  # type: ignore[attr-defined]  # torch_npu adds it
    monkeypatch.setattr(npu, "current_stream", lambda: Stream(stream[-1]))
    if NEW:
        monkeypatch.setattr(module, "global_stream", lambda: Stream(OWN))
        monkeypatch.setattr(module, "npu_stream_switch", switched)
    Numbers.made, Numbers.kept = [], []
    return module


def test_random_numbers_outlive_the_step_that_reads_them(sampler):
    """An allocator gives memory away that only another stream still reads, unless that stream was named (#13394)."""
    torch.manual_seed(0)
    chances = torch.tensor([[0.0, 0.3, 0.7, 0.0]] * 400).as_subclass(Numbers)
    chosen = sampler.random_sample(chances, {}).as_subclass(torch.Tensor)
    assert {*chosen.tolist()} == {1, 2} and 0.2 < (chosen == 1).float().mean() < 0.4
    [(numbers, on)] = Numbers.made
    assert on == (OWN if NEW else STEP)
    assert on == STEP or (id(numbers), STEP) in Numbers.kept
