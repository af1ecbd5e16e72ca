# SPDX-License-Identifier: Apache-2.0
"""Every NPU operator that our code calls: it exists, and takes what we give it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

import vlm_models
from tests.npu import agreement

SOURCES = sorted(Path(vlm_models.__file__).parent.rglob("*.py"))


def calls() -> list[tuple[str, str, ast.Call]]:
    """(namespace, operator, call) of every ``torch.ops.npu.x(...)`` and ``torch.ops.atb.x(...)`` in the plugin."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("torch.ops.npu.", "torch.ops.atb.")):
                _, _, namespace, operator = ast.unparse(node.func).split(".")
                found.append((namespace, operator, node))
    return found


@pytest.mark.parametrize(
    ("namespace", "operator", "call"), calls(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_arguments_fit_the_schema(torch_npu, namespace, operator, call):
    schema = getattr(getattr(torch.ops, namespace), operator).default._schema
    names = [argument.name for argument in schema.arguments]
    given = names[: len(call.args)] + [keyword.arg for keyword in call.keywords]
    assert len(given) == len(set(given)) and set(given) <= set(names), str(schema)
    missing = [
        argument.name
        for argument in schema.arguments
        if not argument.has_default_value() and argument.name not in given
    ]
    assert missing == [], str(schema)


def test_nothing_else_touches_the_npu():
    assert {(namespace, operator) for namespace, operator, _ in calls()} == {
        ("npu", "npu_fusion_attention"),
        ("npu", "npu_rotary_mul"),
        ("atb", "_npu_flash_attention_unpad"),
    }
    for path in SOURCES:
        assert "import torch_npu" not in path.read_text(), f"{path.name}: importing torch_npu would initialise it"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["npu-fusion", "npu-atb"])
def test_numbers(cpu_kernels, name, dtype):
    from vlm_models.paddleocr_vl.attention import BACKENDS

    agreement.check(BACKENDS[name](agreement.HEAD_DIM), dtype)


def test_the_npu_takes_its_own_backend(torch_npu):
    from vlm_models.paddleocr_vl.attention import packed_attention

    npu = torch.device("npu:0")
    assert packed_attention(npu, torch.bfloat16, 72).name == "npu-fusion"
    assert packed_attention(npu, torch.bfloat16, 72, "npu-atb").name == "npu-atb"
    with pytest.raises(
        ValueError, match="VLM_ATTENTION is 'flash', which does not run torch.bfloat16 on npu; .*npu-fusion"
    ):
        packed_attention(npu, torch.bfloat16, 72, "flash")
