# SPDX-License-Identifier: Apache-2.0
"""The check of a single die: its calls by the real torch_npu's names, and what it finds where a kernel is wrong."""

from __future__ import annotations

import dataclasses
import math
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support import simulated_graphs
from vlm_server.die_check import on_cpu, one, shapes
from vlm_server.die_check.operators import OPERATORS, Operator

CPU = torch.device("cpu")
BY_NAME = {operator.name: operator for operator in OPERATORS}
# What the language model calls on a 310P alone (tests/npu/inference_card).
ON_310P = {"attention of a prompt, ATB"}


@pytest.fixture
def calls(cpu_kernels, small_passes, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a die is asked on either stack, with strict stand-ins behind the names, graphs and the extension."""
    npu: Any = torch.npu  # type: ignore[attr-defined]  # torch_npu adds it
    simulated_graphs.install(npu, monkeypatch)
    for module in ("vllm_ascend", "vllm_ascend.vllm_ascend_C", "vllm_ascend.utils"):
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    vars(sys.modules["vllm_ascend.utils"])["enable_custom_op"] = lambda: True
    from tests.support import simulated_attention_kernels, simulated_language_kernels
    from vlm_server.die_check import on_npu

    if not simulated_language_kernels.KEPT:
        simulated_language_kernels.register()
        simulated_attention_kernels.register()
    return {**on_cpu.EVERYWHERE, **on_npu.calls("0.11.1"), **on_npu.calls("0.23.0")}


def test_a_die_is_asked_for_every_operator(calls):
    assert set(calls) == set(BY_NAME) - ON_310P and len(BY_NAME) == len(OPERATORS)
    # What the tests of the tower and of vllm-ascend's layers know is called on a die.
    asked = {operator.library for operator in OPERATORS}
    assert asked == {"torch", "npu", "atb", "vllm_ascend"}


def test_each_stack_is_asked_for_what_it_calls(calls, monkeypatch: pytest.MonkeyPatch):
    """tests/npu/vllm_ascend compares the calls with those of the stacks' own code."""
    from vlm_server.die_check import on_npu

    steps = ("attention of whole prompts", "attention of one token")
    first, since = ({name for name in on_npu.calls(stack) if name.startswith(steps)} for stack in ("0.11.1", "0.23.0"))
    assert first == {f"{step}, ATB" for step in steps} and since == set(steps)
    assert all("attention of a prompt" in on_npu.calls(stack) for stack in ("0.11.1", "0.23.0"))
    asked = {}
    for machine in ("aarch64", "x86_64"):
        monkeypatch.setattr(on_npu.platform, "machine", lambda machine=machine: machine)
        asked[machine] = [stack for stack in ("0.11.1", "0.23.0") if "rotary, three axes" in on_npu.calls(stack)]
    assert asked == {"aarch64": ["0.11.1", "0.23.0"], "x86_64": ["0.23.0"]}


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - ON_310P))
def test_the_calls_give_what_is_expected(calls, name: str):
    finding = one.check(BY_NAME[name], calls[name], CPU)
    assert finding["words"] == "" and finding["error"] <= BY_NAME[name].tolerance, finding


def test_the_extension_is_loaded_when_it_is_known_where_its_kernels_lie(
    calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """v0.23.0's reads the place once, while it is loaded: every die failed where it was imported first."""
    package = tmp_path / "vllm_ascend"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "utils.py").write_text(
        "import os\ndef enable_custom_op():\n    os.environ['ASCEND_CUSTOM_OPP_PATH'] = 'there'\n"
    )
    (package / "vllm_ascend_C.py").write_text("import os\nKERNELS = os.environ.get('ASCEND_CUSTOM_OPP_PATH')\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm_ascend"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", "")
    one.check(BY_NAME["compiled extension"], calls["compiled extension"], CPU)
    assert sys.modules["vllm_ascend.vllm_ascend_C"].KERNELS == "there"


def test_a_die_computes_as_it_serves():
    said: dict[str, Any] = {}
    npu = types.SimpleNamespace(config=types.SimpleNamespace(), set_compile_mode=said.update)
    one.as_served(npu)
    assert said == {"jit_compile": False} and npu.config.allow_internal_format is True


@pytest.mark.parametrize("name", on_cpu.EVERYWHERE | on_cpu.CALLS)
def test_a_cpu_gives_what_is_expected(name: str):
    call = (on_cpu.EVERYWHERE | on_cpu.CALLS)[name]
    finding = one.check(BY_NAME[name], call, CPU)
    assert finding["words"] == "" and finding["error"] <= BY_NAME[name].tolerance, finding


def one_wrong(found: torch.Tensor) -> torch.Tensor:
    """The largest value of all is lost."""
    found = found.clone()
    found.view(-1)[found.abs().argmax()] = 0
    return found


MISTAKES = {
    "one value lost": one_wrong,
    "three per cent too large": lambda found: found * 1.03,
    "rows in another order": lambda found: found.flip(0),
    "rows shifted": lambda found: found.roll(1, 0),
    "not a number": lambda found: torch.where(found == found.max(), torch.nan, found),
    "cut off": lambda found: found[:-1],
    "zeros": torch.zeros_like,
}


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_a_wrong_result_is_found(small_passes, operator: Operator):
    given = (value.double() if value.is_floating_point() else value for value in operator.inputs())
    exact = operator.expected(*given)
    right = exact.to(torch.bfloat16)
    assert operator.error(right) <= operator.tolerance
    # The result in 64 bits is the same for every mistake.
    known = dataclasses.replace(operator, inputs=tuple, expected=lambda: exact)
    missed = [name for name, change in MISTAKES.items() if known.error(change(right)) <= operator.tolerance]
    assert missed == []


def test_a_page_is_as_large_as_served_and_an_average_of_its_values_is_found(monkeypatch: pytest.MonkeyPatch):
    """What upstream's own tower gave at one size, without an error (vllm-ascend #13699)."""
    monkeypatch.setattr(shapes, "VISION_HEADS", 2)  # of 16, for the time
    assert shapes.PASSES[shapes.PAGE] == (14400,) and len(shapes.PASSES[shapes.MANY]) == 1000
    operator = BY_NAME[shapes.tower(shapes.PAGE)]
    qkv, *_ = operator.inputs()
    values = qkv[:, 2 * shapes.VISION_HEADS :].float()
    average = values.mean(0, keepdim=True).expand(len(shapes.compared((14400,))), -1, -1)
    assert operator.error(average) > 4 * operator.tolerance


def test_a_graph_that_computes_nothing_is_found(calls, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(simulated_graphs.NPUGraph, "replay", lambda self: None)
    assert one.check(BY_NAME["captured graph"], calls["captured graph"], CPU)["words"]


def test_an_extension_that_does_not_load_is_found(calls, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "vllm_ascend.vllm_ascend_C")
    finding = one.check(BY_NAME["compiled extension"], calls["compiled extension"], CPU)
    assert finding["words"].startswith("ModuleNotFoundError")


def test_what_a_kernel_raises_is_a_finding():
    def broken(*_: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("aclnnMatmul failed, 507018")

    finding = one.check(BY_NAME["linear"], broken, CPU)
    assert finding["words"] == "RuntimeError: aclnnMatmul failed, 507018" and finding["error"] is None


# What the language model's calls must not be; each is one edit of on_npu.py.
@pytest.mark.parametrize(
    ("name", "value"),
    [("SCALE", 1.0), ("TILES", 4)],  # 4 is no layout of a matrix
)
def test_a_wrong_argument_is_found(calls, monkeypatch: pytest.MonkeyPatch, name: str, value: float):
    from vlm_server.die_check import on_npu

    monkeypatch.setattr(on_npu, name, value)
    if name == "SCALE":
        monkeypatch.setitem(on_npu.HEAD_ARGUMENTS, "scale_value", value)
    wrong = {name for name, call in calls.items() if one.check(BY_NAME[name], call, CPU)["words"]}
    attention = {name for name in BY_NAME.keys() - ON_310P if name.startswith("attention of ")}
    assert len(attention) == 5 and wrong == (attention if name == "SCALE" else {"linear, weight in tiles"})


def test_tolerances_are_roundings():
    assert all(operator.tolerance == operator.roundings / 256 < 0.03 for operator in OPERATORS)
    assert math.isinf(BY_NAME["gelu"].error(torch.zeros(1)))
