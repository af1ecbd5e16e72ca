# SPDX-License-Identifier: Apache-2.0
"""Layers of HunyuanOCR's and Qwen2-VL's language models as vllm-ascend computes them, on strict stand-ins.

vLLM builds the same layer twice, once with what vllm-ascend puts in the place of its own. Attention with its cache is
in test_attention; here PyTorch's stands in both, so that all else is compared.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch

from tests.npu.kernels import ATTENTION, Recorded, without_kernel
from tests.npu.mistakes import with_mistake
from tests.npu.vllm_ascend.conftest import NEW, built
from tests.npu.vllm_ascend.texts_of_layers import ADDED, GAPS

pytestmark = pytest.mark.skipif(not NEW, reason="stack 0.11.1 does not serve these families")

TOKENS = 9
WIDTHS = {"qwen2_vl": 1536, "hunyuan_vl": 1024}
# Rows of positions, as the runner hands them over: M-RoPE and XD-RoPE.
AXES = {"qwen2_vl": 3, "hunyuan_vl": 4}
NORMS = {"npu::npu_rms_norm", "_C_ascend::npu_add_rms_norm_bias", "npu::npu_swiglu"}
CALLED = {"qwen2_vl": {*NORMS, "npu::npu_mrope"}, "hunyuan_vl": NORMS}


class Causal(torch.nn.Module):
    """PyTorch's attention under the name of vLLM's: values [tokens, heads * head], in float32."""

    def __init__(self, num_heads: int, head_size: int, scale: float, num_kv_heads: int, **_: Any) -> None:
        super().__init__()
        self.head_size, self.scale, self.shared = head_size, scale, num_heads // num_kv_heads

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, key, value = (x.reshape(1, len(x), -1, self.head_size).transpose(1, 2) for x in (query, key, value))
        key, value = (x.repeat_interleave(self.shared, dim=1) for x in (key, value))
        found = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=self.scale)
        return found[0].transpose(0, 1).flatten(1)


def qwen2_vl(patches: pytest.MonkeyPatch) -> torch.nn.Module:
    """The published widths of 2B: 12 heads and 2 key heads of 128, biases, M-RoPE in sections 16, 24 and 24."""
    from transformers import Qwen2Config
    from vllm.model_executor.models import qwen2

    patches.setattr(qwen2, "Attention", Causal)
    kind: Any = Qwen2Config
    config = kind(
        hidden_size=1536, intermediate_size=8960, num_attention_heads=12, num_key_value_heads=2, rms_norm_eps=1e-6
    )
    config.rope_parameters = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    return qwen2.Qwen2DecoderLayer(config, prefix="model.layers.0")


def hunyuan_vl(patches: pytest.MonkeyPatch) -> torch.nn.Module:
    """The published widths: 16 heads and 8 key heads of 128, normed ones, and our XD-RoPE in the place of vLLM's."""
    from vllm.model_executor.models import hunyuan_v1
    from vllm.transformers_utils.configs.hunyuan_vl import HunYuanVLTextConfig

    from vlm_models.hunyuan_vl.model import XDRotation

    patches.setattr(hunyuan_v1, "Attention", Causal)
    config: Any = HunYuanVLTextConfig(
        hidden_size=1024, intermediate_size=3584, num_attention_heads=16, num_key_value_heads=8, head_dim=128
    )
    sections = [16, 16, 16, 16]
    config.use_qk_norm = True
    config.rope_parameters = {"rope_type": "xdrope", "rope_theta": 1e4, "alpha": 1000.0, "xdrope_section": sections}
    layer = hunyuan_v1.HunYuanDecoderLayer(config, prefix="model.layers.0", layer_id=0)
    # As our model does.
    attention: Any = layer.self_attn
    attention.rotary_emb = XDRotation(attention.rotary_emb.cos_sin_cache, sections)
    return layer


LAYERS: dict[str, Callable[[pytest.MonkeyPatch], torch.nn.Module]] = {"qwen2_vl": qwen2_vl, "hunyuan_vl": hunyuan_vl}


@pytest.fixture
def build(layers, without_prefetch, engine_config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable]:  # noqa: F811
    """A function (family, replaced layers) -> one of its layers; without replaced ones it is vLLM's own."""
    from vllm.model_executor.layers import rotary_embedding

    config = engine_config()

    def make(family: str, **replaced: type) -> torch.nn.Module:
        # vLLM keeps rotations by their settings: the second layer would get the first one's.
        monkeypatch.setattr(rotary_embedding, "_ROPE_DICT", {})
        return built(lambda: LAYERS[family](monkeypatch), config, replaced, monkeypatch)

    yield make


def ascends(layers, **changed: types.ModuleType) -> dict[str, type]:
    """vllm-ascend's layers that a decoder layer meets, by the names of vLLM's; `changed` modules stand for its own."""
    modules = {name: layers(f"ops.{name}") for name in ("rotary_embedding", "layernorm", "activation")} | changed
    return {
        "MRotaryEmbedding": modules["rotary_embedding"].AscendMRotaryEmbedding,
        "RMSNorm": modules["layernorm"].AscendRMSNorm,
        "SiluAndMul": modules["activation"].AscendSiluAndMul,
    }


def run(layer: torch.nn.Module, family: str, recorded: AbstractContextManager[Any]) -> torch.Tensor:
    """States and residual [2, tokens, width] behind the layer twice: as the model's first, and as one behind it.

    Positions are a view with gaps, as the runner's are.
    """
    torch.manual_seed(1)
    states = torch.randn(TOKENS, WIDTHS[family])
    positions = torch.randint(0, 64, (AXES[family], 4 * TOKENS))[:, :TOKENS]
    with torch.no_grad(), recorded:
        first = layer(positions, states, None)
        return torch.stack(layer(positions, *first[:2])[:2])


def check(build, family: str, replaced: dict[str, type]) -> set[str]:
    """Raise unless both layers give the same; the operators that were called."""
    expected = run(build(family), family, nullcontext())
    layer = build(family, **replaced)
    assert expected.std() > 0.01
    recorded = Recorded()
    ours = run(layer, family, recorded)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    assert without_kernel(recorded.of("aten") - ATTENTION) == set()
    return {
        name.removesuffix(".default") for name in recorded.names if name.startswith(("npu::", "atb::", "_C_ascend::"))
    }


@pytest.mark.parametrize("family", LAYERS)
def test_a_layer_on_an_npu(layers, build, family: str):
    assert check(build, family, ascends(layers)) == CALLED[family]


# family, module of vllm-ascend, text in it, what it becomes
MISTAKES = [
    ("qwen2_vl", "rotary_embedding", *GAPS),
    ("qwen2_vl", "rotary_embedding", "mrope_section=mrope_section,", "mrope_section=[24, 24, 16],"),
    ("qwen2_vl", "activation", "torch_npu.npu_swiglu(x)", "torch_npu.npu_swiglu(-x)"),
    ("hunyuan_vl", "layernorm", "torch_npu.npu_rms_norm(x, self.weight,", "torch_npu.npu_rms_norm(x, self.weight * 2,"),
    ("hunyuan_vl", "layernorm", *ADDED[0]),
]


@pytest.mark.parametrize(("family", "name", "old", "new"), MISTAKES, ids=lambda value: value[:40])
def test_a_mistake_is_found(layers, build, family: str, name: str, old: str, new: str):
    broken = with_mistake(layers(f"ops.{name}"), old, new)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        check(build, family, ascends(layers, **{name: broken}))


def test_each_replacement_is_vllm_ascends_own(layers, engine_config):
    """The classes above stand where its own registration puts them."""
    utils = layers("utils")
    utils.register_ascend_customop(engine_config())
    assert ascends(layers).items() <= utils.REGISTERED_ASCEND_OPS.items()
