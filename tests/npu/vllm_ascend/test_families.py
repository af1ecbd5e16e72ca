# SPDX-License-Identifier: Apache-2.0
"""HunyuanOCR's and Qwen2-VL's towers as vllm-ascend computes them: its layers, on strict stand-ins for the operators.

vLLM builds the same tower twice, once with the layers that vllm-ascend puts in the place of its own. What both models
call of PyTorch besides, torch_npu has a kernel for. Stack 0.11.1 does not serve them on Ascend (config/models.yaml).
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch

from tests.npu.kernels import ATTENTION, Recorded, without_kernel
from tests.npu.mistakes import with_mistake
from tests.npu.vllm_ascend.conftest import NEW, built

pytestmark = pytest.mark.skipif(not NEW, reason="stack 0.11.1 does not serve these families")

# Frames, rows and columns of patches: two images, and for Qwen2-VL a video of two pairs of frames.
GRIDS = {"qwen2_vl": [[1, 8, 12], [1, 4, 4], [2, 4, 6]], "hunyuan_vl": [[1, 8, 12], [1, 4, 6]]}
PATCH = {"qwen2_vl": 3 * 2 * 14 * 14, "hunyuan_vl": 3 * 16 * 16}
FIA = "npu::npu_fused_infer_attention_score"
# The operators that vllm-ascend's layers call for each tower.
CALLED = {
    "qwen2_vl": {"npu::npu_rotary_mul", "npu::npu_fast_gelu", FIA},
    "hunyuan_vl": {"npu::npu_rms_norm", FIA},
}
# What fused attention takes, and how far rounding may move a value.
DTYPE, TOLERANCE = torch.float16, 1e-3


def qwen2_vl() -> torch.nn.Module:
    """One layer of the published widths: heads of 80."""
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
    from vllm.model_executor.models.qwen2_vl import Qwen2VisionTransformer

    kind: Any = Qwen2VLVisionConfig
    return Qwen2VisionTransformer(kind(depth=1, hidden_size=64))


def hunyuan_vl() -> torch.nn.Module:
    """One layer of the published widths, heads of 72, with our positions of the patches."""
    from vllm.model_executor.models.hunyuan_vision import HunYuanVisionTransformer
    from vllm.transformers_utils.configs.hunyuan_vl import HunYuanVLVisionConfig

    from vlm_models.hunyuan_vl.model import PatchEmbed

    config = HunYuanVLVisionConfig(num_hidden_layers=1, out_hidden_size=64, max_image_size=512)
    tower = HunYuanVisionTransformer(config)
    tower.embeddings = PatchEmbed(config)
    return tower


TOWERS: dict[str, Callable[[], torch.nn.Module]] = {"qwen2_vl": qwen2_vl, "hunyuan_vl": hunyuan_vl}


@pytest.fixture
def build(
    layers,
    without_prefetch: None,
    engine_config,
    monkeypatch: pytest.MonkeyPatch,
    cpu_kernels: None,
) -> Iterator[Callable]:
    """A function (family, replaced layers) -> its tower; without layers it is vLLM's own."""
    config = engine_config()
    # vLLM registers its plain attention for the platform's device alone.
    wrappers = importlib.import_module("vllm.v1.attention.ops.vit_attn_wrappers")
    library = torch.library.Library("vllm", "IMPL")
    library.impl("torch_sdpa_wrapper", wrappers.torch_sdpa_wrapper, "CPU")

    def make(family: str, **replaced: type) -> torch.nn.Module:
        return built(lambda: TOWERS[family]().to(DTYPE), config, replaced, monkeypatch)

    yield make
    library._destroy()


def ascends(layers, **changed: types.ModuleType) -> dict[str, type]:
    """vllm-ascend's layers that the towers meet, by the names of vLLM's; `changed` modules stand for its own."""
    modules = {name: layers(f"ops.{name}") for name in ("rotary_embedding", "mm_encoder_attention", "activation")}
    modules |= {"layernorm": layers("ops.layernorm"), **changed}
    return {
        "ApplyRotaryEmb": modules["rotary_embedding"].AscendApplyRotaryEmb,
        "MMEncoderAttention": modules["mm_encoder_attention"].AscendMMEncoderAttention,
        "QuickGELU": modules["activation"].AscendQuickGELU,
        "RMSNorm": modules["layernorm"].AscendRMSNorm,
    }


def run(tower: torch.nn.Module, family: str, recorded: AbstractContextManager[Any]) -> torch.Tensor:
    torch.manual_seed(1)
    patches = torch.randn(sum(t * h * w for t, h, w in GRIDS[family]), PATCH[family]).to(DTYPE)
    # Inference mode would hide what operators are made of.
    with torch.no_grad(), recorded:
        found = tower(patches, GRIDS[family])
    return torch.cat(found) if isinstance(found, list) else found


def check(build, family: str, replaced: dict[str, type]) -> set[str]:
    """Raise unless both towers give the same; the operators that were called."""
    expected = run(build(family), family, nullcontext())
    tower = build(family, **replaced)
    assert expected.std() > 0.01
    recorded = Recorded()
    ours = run(tower, family, recorded)
    assert (ours - expected).norm() < TOLERANCE * expected.norm()
    assert without_kernel(recorded.of("aten") - ATTENTION) == set()
    return {name.removesuffix(".default") for name in recorded.names if not name.startswith("aten::")}


@pytest.mark.parametrize("family", TOWERS)
def test_the_tower_on_an_npu(layers, build, family: str):
    assert check(build, family, ascends(layers)) == CALLED[family]


def test_attention_has_a_kernel(platform):
    """HunyuanOCR's tower asks PyTorch for it, and vllm-ascend puts nothing in its place."""
    assert without_kernel(["scaled_dot_product_attention.default"]) == set()


# family, module of vllm-ascend, text in it, what it becomes
MISTAKES = [
    ("qwen2_vl", "rotary_embedding", "output = torch_npu.npu_rotary_mul(x, cos, sin)", "output = x"),
    ("qwen2_vl", "mm_encoder_attention", "scale=self.scale,", "scale=query.shape[-1]**-0.5,"),
    ("qwen2_vl", "mm_encoder_attention", "return cu_seqlens.cpu()", "return cu_seqlens.cpu()[[0, -1]]"),
    ("qwen2_vl", "mm_encoder_attention", "[..., :origin_head_dim]", "[..., -origin_head_dim:]"),
    ("hunyuan_vl", "mm_encoder_attention", "(bsz + 1) * q_len, step=q_len", "bsz * q_len + 1, step=q_len // 2"),
    ("qwen2_vl", "rotary_embedding", "cos = torch.cat((cos, cos), dim=-1)", "cos = cos.repeat_interleave(2, -1)"),
    ("qwen2_vl", "activation", "torch_npu.npu_fast_gelu(x)", "torch.nn.functional.silu(x)"),
    ("hunyuan_vl", "layernorm", "torch_npu.npu_rms_norm(x, self.weight,", "torch_npu.npu_rms_norm(x, self.weight * 2,"),
]


@pytest.mark.parametrize(("family", "name", "old", "new"), MISTAKES, ids=lambda value: value[:40])
def test_a_mistake_is_found(layers, build, family: str, name: str, old: str, new: str):
    broken = with_mistake(layers(f"ops.{name}"), old, new)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        check(build, family, ascends(layers, **{name: broken}))


def test_each_replacement_is_vllm_ascends_own(layers, engine_config):
    """The classes above stand where its own registration puts them."""
    utils = importlib.import_module("vllm_ascend.utils")
    utils.register_ascend_customop(engine_config())
    assert ascends(layers).items() <= utils.REGISTERED_ASCEND_OPS.items()


def test_the_rotation_of_hunyuan_on_an_npu(platform):
    """Ours is made of PyTorch's operators, each of which has a kernel, and looks at no value from the host."""
    from vlm_models.hunyuan_vl.model import XDRotation

    rotation = XDRotation(torch.randn(64, 128), [16, 16, 16, 16])
    positions = torch.randint(0, 64, (4, 9))[:, :7]
    query, key = torch.randn(7, 16 * 128), torch.randn(7, 8 * 128)
    with Recorded() as recorded:
        rotation(positions, query, key)
    assert without_kernel(recorded.of("aten")) == set()
    moved = [value.to("meta") for value in (positions, query, key)]
    turned = rotation.to("meta")(*moved)
    assert [value.shape for value in turned] == [query.shape, key.shape]


def test_the_runner_hands_over_four_rows_of_positions(platform):
    """vllm-ascend's runner asks the model for them as vLLM's does, with the arguments that the model takes."""
    import inspect

    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    from vlm_models.hunyuan_vl.model import HunYuanVLForConditionalGeneration

    runner = importlib.import_module("vllm_ascend.worker.model_runner_v1").NPUModelRunner
    assert issubclass(runner, GPUModelRunner) and runner._init_xdrope_positions is GPUModelRunner._init_xdrope_positions
    assert "self._calc_xdrope_positions(scheduler_output)" in inspect.getsource(runner)
    parameters = list(inspect.signature(HunYuanVLForConditionalGeneration.get_xdrope_input_positions).parameters)
    assert parameters == ["self", "input_tokens", "mm_features"]
