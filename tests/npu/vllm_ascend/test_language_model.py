# SPDX-License-Identifier: Apache-2.0
"""What vllm-ascend calls for the language model: its own layers, on strict stand-ins for the operators.

The shapes are those of PaddleOCR-VL's ERNIE-4.5: 16 heads and 2 key heads of 128, sections 16, 24 and 24.
"""

from __future__ import annotations

import ast
import types
from pathlib import Path

import pytest
import torch

from tests.npu.mistakes import with_mistake
from tests.npu.vllm_ascend.conftest import NEW
from tests.npu.vllm_ascend.texts_of_layers import ADDED, GAPS, QUOTE

HEADS, KEY_HEADS, HEAD_DIM, SECTIONS, TOKENS = 16, 2, 128, [16, 24, 24], 7
# Module of vllm-ascend -> the operators that our configuration meets in it.
CALLED = {
    "ops.rotary_embedding": {"npu_mrope"},
    "ops.layernorm": {"npu_rms_norm", "npu_add_rms_norm"},
    "ops.activation": {"npu_swiglu"},
    "attention.attention_v1": {
        "npu_fused_infer_attention_score",
        "npu_fusion_attention",
        "_npu_paged_attention",
        "_npu_reshape_and_cache",
    },
}
if NEW:
    CALLED["ops.layernorm"] |= {"npu_add_rms_norm_bias"}
    CALLED["device.device_op"] = {"_npu_reshape_and_cache", "npu_fused_infer_attention_score"}


def rotate(module: types.ModuleType) -> None:
    """Raise unless the layer's operator path gives the values of its plain PyTorch path, as the runner calls it."""
    torch.manual_seed(0)
    layer = module.AscendMRotaryEmbedding(HEAD_DIM, HEAD_DIM, 64, 500000.0, True, torch.float32, SECTIONS)
    # The runner's buffer is longer than a step: what it hands over is a view with gaps.
    buffer = torch.randint(0, 64, (3, 4 * TOKENS))
    positions = buffer[:, :TOKENS]
    qkv = torch.randn(TOKENS, (HEADS + 2 * KEY_HEADS) * HEAD_DIM)
    query, key, _ = qkv.split([HEADS * HEAD_DIM, KEY_HEADS * HEAD_DIM, KEY_HEADS * HEAD_DIM], dim=-1)
    expected = layer.forward_native(positions, query.clone(), key.clone())
    for ours, theirs in zip(layer.forward_oot(positions, query, key), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def norm(module: types.ModuleType) -> None:
    """The norm alone, and with what is added before it."""
    torch.manual_seed(0)
    layer = module.AscendRMSNorm(1024, eps=1e-5, dtype=torch.float32)
    torch.nn.init.normal_(layer.weight)
    value, residual = torch.randn(2, TOKENS, 1024).unbind()
    torch.testing.assert_close(layer.forward_oot(value.clone()), layer.forward_native(value.clone()))
    both = layer.forward_oot(value.clone(), residual.clone())
    for ours, theirs in zip(both, layer.forward_native(value.clone(), residual.clone()), strict=True):
        torch.testing.assert_close(ours, theirs)


def gate(module: types.ModuleType) -> None:
    """SwiGLU; prefetching of weights, which the runner sets up, does nothing here."""
    layer = module.AscendSiluAndMul()
    value = torch.randn(TOKENS, 6144)
    torch.testing.assert_close(layer.forward_oot(value), layer.forward_native(value))


CHECKS = {"ops.rotary_embedding": rotate, "ops.layernorm": norm, "ops.activation": gate}
# module, text in it, what it becomes; each is there once or more
MISTAKES = [
    ("ops.rotary_embedding", *GAPS),
    ("ops.rotary_embedding", "query.contiguous(),", "query,"),
    ("ops.rotary_embedding", "mrope_section=mrope_section,", "mrope_section=[24, 24, 16],"),
    ("ops.rotary_embedding", "mrope_section=mrope_section,", ""),
    ("ops.rotary_embedding", f"rotary_mode={QUOTE}half", f"rotary_mode={QUOTE}interleave"),
    ("ops.layernorm", *ADDED[0]),
    ("ops.layernorm", *ADDED[1]),
    ("ops.activation", "torch_npu.npu_swiglu(x)", "torch_npu.npu_swiglu(x, 0)"),
]


@pytest.mark.parametrize("name", CHECKS)
def test_values(layers, without_prefetch, name: str):
    CHECKS[name](layers(name))


@pytest.mark.parametrize(("name", "old", "new"), MISTAKES, ids=lambda value: value[:40])
def test_a_mistake_is_found(layers, without_prefetch, name: str, old: str, new: str):
    broken = with_mistake(layers(name), old, new)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        CHECKS[name](broken)


HOMES = ("torch_npu.", "torch.ops.npu.", "torch.ops._C_ascend.")


@pytest.mark.parametrize("name", CALLED)
def test_arguments_fit_the_schemas(layers, name: str):
    """Every call of these operators in the module, compared with the wheel's own schemas."""
    file = layers(name).__file__
    assert file
    found = set()
    for node in ast.walk(ast.parse(Path(file).read_text())):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith(HOMES):
            continue
        operator = ast.unparse(node.func).removesuffix(".out").rpartition(".")[2]
        if operator not in CALLED[name]:
            continue
        found.add(operator)
        homes = (torch.ops.npu, torch.ops.atb, torch.ops._C_ascend)
        packet = next(getattr(home, operator) for home in homes if hasattr(home, operator))
        kind = "out" if ast.unparse(node.func).endswith(".out") else "default"
        names = [argument.name for argument in getattr(packet, kind)._schema.arguments]
        # The wheel's Python functions take the first arguments by position too.
        given = names[: len(node.args)] + [word.arg for word in node.keywords if word.arg and word.arg != "out"]
        assert len(given) == len(set(given)) and set(given) <= set(names), f"{operator}: {given}"
    assert found, f"{name} calls none of {CALLED[name]}"


def test_keys_and_values_go_to_their_slots(layers):
    """The cache operator as attention_v1 calls it: slices of the first tokens, int32 slots."""
    layers("attention.attention_v1")
    key, value = torch.randn(2, TOKENS + 3, KEY_HEADS, HEAD_DIM).unbind()
    caches = torch.zeros(2, 2, 16, KEY_HEADS, HEAD_DIM)
    slots = torch.tensor([17, 3, 0, 31, 16, 8, 9, 0, 0, 0], dtype=torch.int32)
    torch.ops.atb._npu_reshape_and_cache(key[:TOKENS], value[:TOKENS], caches[0], caches[1], slots[:TOKENS])
    flat = caches.view(2, 32, KEY_HEADS, HEAD_DIM)
    torch.testing.assert_close(flat[0, slots[:TOKENS].long()], key[:TOKENS])
    torch.testing.assert_close(flat[1, slots[:TOKENS].long()], value[:TOKENS])
    with pytest.raises(ValueError, match="not contiguous"):
        torch.ops.atb._npu_reshape_and_cache(key[:TOKENS, :, ::2], value[:TOKENS, :, ::2], *caches, slots[:TOKENS])
