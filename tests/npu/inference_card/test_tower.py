# SPDX-License-Identifier: Apache-2.0
"""The tower's attention on a 310P, by ATB in float16, and the check of a die with what such a card has."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.npu import agreement
from vlm_server.die_check import on_cpu, one, shapes
from vlm_server.die_check.operators import OPERATORS

NAME = "npu-atb-310p"
CPU = torch.device("cpu")


@pytest.mark.parametrize("lengths", [agreement.LENGTHS, [16, 32], [4]], ids=str)
def test_numbers(cpu_kernels: None, monkeypatch: pytest.MonkeyPatch, lengths: list[int]):
    """With rows to fill up, and without."""
    from vlm_models.paddleocr_vl.attention import BACKENDS

    monkeypatch.setattr(agreement, "LENGTHS", lengths)
    agreement.check(BACKENDS[NAME](agreement.HEAD_DIM), torch.float16)


@pytest.mark.parametrize("name", ["npu-fusion", "npu-atb"])
def test_what_other_chips_are_asked_for_fails_here(cpu_kernels: None, name: str):
    from vlm_models.paddleocr_vl.attention import BACKENDS

    with pytest.raises((RuntimeError, ValueError), match="not offered on a 310P|60 rows; a multiple of 16"):
        agreement.check(BACKENDS[name](agreement.HEAD_DIM), torch.float16)
    with pytest.raises((RuntimeError, ValueError), match="not offered on a 310P|bfloat16; a 310P has float16"):
        agreement.check(BACKENDS[name](agreement.HEAD_DIM), torch.bfloat16)


def test_only_float16(torch_npu: Any):
    from vlm_models.paddleocr_vl.attention import packed_attention

    npu = torch.device("npu:0")
    assert packed_attention(npu, torch.float16, 72, NAME).name == NAME
    with pytest.raises(ValueError, match=f"VLM_ATTENTION is '{NAME}', which does not run torch.bfloat16 on npu"):
        packed_attention(npu, torch.bfloat16, 72, NAME)


def test_the_check_of_a_die_calls_what_a_310p_has(cpu_kernels: None, small_passes: None):
    assert shapes.DTYPE == torch.float16
    findings = {finding["name"]: finding for finding in one.check_all("npu", CPU)}
    assert not [finding for finding in findings.values() if finding["words"]]
    assert {operator.name for operator in OPERATORS} - set(findings) == {
        *(shapes.tower(name) for name in shapes.PASSES),
        "attention of whole prompts",
        "attention of a prompt",
        "attention of one token",
        "slots of a step",  # computed in NumPy there (vllm_ascend/_310p/block_table.py)
        "compiled extension",
        "captured graph",
    }


@pytest.mark.parametrize(("name", "value"), [("SCALE", 1.0), ("TILE", 8), ("COMPRESSED", 1024), ("TILES", 4)])
def test_a_wrong_argument_is_found(cpu_kernels: None, monkeypatch: pytest.MonkeyPatch, name: str, value: float):
    from vlm_server.die_check import on_310p

    if name == "SCALE":
        monkeypatch.setitem(on_310p.HEAD_ARGUMENTS, "scale_value", value)
    else:
        monkeypatch.setattr(on_310p, name, value)
    attention = {f"attention of {what}, ATB" for what in ("whole prompts", "a prompt", "one token")}
    wanted = {
        "SCALE": attention,
        "TILE": {*attention, "write to the cache"},
        "COMPRESSED": attention - {"attention of one token, ATB"},
        "TILES": {*attention, "write to the cache"},
    }
    calls = {**on_cpu.EVERYWHERE, **on_310p.CALLS}
    tried = [one for one in OPERATORS if one.name in wanted["TILE"]]
    assert {operator.name for operator in tried if one.check(operator, calls[operator.name], CPU)["words"]} == (
        wanted[name]
    )
