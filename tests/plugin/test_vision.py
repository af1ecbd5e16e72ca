# SPDX-License-Identifier: Apache-2.0
"""The vision tower: attention backends, passes, and what is fused into the linear layers on a CPU."""

from __future__ import annotations

import types

import pytest
import torch
import torch.nn.functional as F
from vllm.model_executor.layers.linear import LinearBase

from env_values import WrongValue
from tests.plugin.layers import one_rank
from tests.support.threads import torch_threads
from vlm_models.paddleocr_vl import attention, passes
from vlm_models.paddleocr_vl.attention import PackedAttention, bf16_cpu, packed_attention
from vlm_models.paddleocr_vl.attention.bf16_cpu import BFloat16CpuAttention
from vlm_models.paddleocr_vl.attention.flash import FlashAttention
from vlm_models.paddleocr_vl.config import PaddleOCRVLConfig
from vlm_models.paddleocr_vl.projector import Projector
from vlm_models.paddleocr_vl.vision import VisionModel
from vlm_models.settings import VisionSettings

__all__ = ["one_rank"]  # a fixture

CPU = torch.device("cpu")
HEADS, HEAD_DIM = 4, 72
LENGTHS = [12, 4, 4, 40, 1]


def heads(dtype: torch.dtype) -> torch.Tensor:
    """Queries, keys and values [T, 3 HEADS, HEAD_DIM], packed as in the tower."""
    packed = torch.randn(sum(LENGTHS), 3 * HEADS, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    return packed.to(dtype)


def attend(backend: PackedAttention, qkv: torch.Tensor) -> torch.Tensor:
    """What the tower calls, by angles of 0."""
    angle = torch.zeros(len(qkv), 1, HEAD_DIM)
    return backend.attend_rotated(qkv, angle.cos(), angle.sin(), backend.plan(LENGTHS, CPU))


def by_definition(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """One softmax over all patches, other images masked, in float64."""
    image = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))
    q, k, v = (x.double().transpose(0, 1) for x in (query, key, value))
    scores = (q @ k.transpose(1, 2) * HEAD_DIM**-0.5).masked_fill(image[:, None] != image, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(0, 1)


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [("sdpa", torch.float32, 1e-5), ("sdpa", torch.bfloat16, 2e-2), ("cpu-bf16", torch.bfloat16, 3e-2)],
)
def test_attention(name, dtype, tolerance):
    backend = attention.BACKENDS[name](HEAD_DIM)
    out = attend(backend, heads(dtype))
    assert out.is_contiguous() and out.dtype == dtype
    expected = by_definition(*heads(dtype).split(HEADS, dim=1))
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("scores", "rows"), [(1, 1), (1, 7), (100, 3), (1 << 19, 256)])
def test_steps_of_the_cpu_backend_do_not_change_its_result(monkeypatch, threads, scores, rows):
    monkeypatch.setattr(bf16_cpu, "SCORES_PER_THREAD", scores)
    monkeypatch.setattr(bf16_cpu, "LEAST_ROWS", rows)
    backend = BFloat16CpuAttention(HEAD_DIM)
    with torch_threads(threads):
        out = attend(backend, heads(torch.bfloat16)).double()
    expected = by_definition(*heads(torch.bfloat16).split(HEADS, dim=1))
    assert (out - expected).norm() / expected.norm() < 6e-3


@pytest.mark.parametrize(
    ("name", "dtype"), [("sdpa", torch.float32), ("sdpa", torch.bfloat16), ("cpu-bf16", torch.bfloat16)]
)
def test_rotation_before_attention(name, dtype):
    """As :func:`test_rotation` and :func:`test_attention` have it, together."""
    backend, total = attention.BACKENDS[name](HEAD_DIM), sum(LENGTHS)
    qkv = torch.randn(total, 3 * HEADS, HEAD_DIM, generator=torch.Generator().manual_seed(1)).to(dtype)
    angle = torch.rand(total, 1, HEAD_DIM // 2, generator=torch.Generator().manual_seed(2)).repeat(1, 1, 2) * 6
    before = qkv.clone()
    out = backend.attend_rotated(qkv, angle.cos(), angle.sin(), backend.plan(LENGTHS, CPU))
    assert out.is_contiguous() and out.shape == (total, HEADS, HEAD_DIM) and torch.equal(qkv, before)
    turned = backend.rotate(qkv[:, : 2 * HEADS].float(), angle.cos(), angle.sin())
    query, key = turned.split(HEADS, dim=1)
    expected = by_definition(query, key, qkv[:, 2 * HEADS :])
    assert (out.double() - expected).norm() / expected.norm() < (1e-6 if dtype == torch.float32 else 1e-2)


def test_flash_attention_is_called_as_vllm_declares_it(monkeypatch):
    """vLLM's function, by its interface: bounds with a leading 0, on the device, and the longest sequence."""

    def declared(q, k, v, max_seqlen_q, cu_seqlens_q, max_seqlen_k, cu_seqlens_k, softmax_scale, causal, fa_version):
        assert cu_seqlens_q is cu_seqlens_k and cu_seqlens_q.dtype == torch.int32 and not causal and fa_version == 2
        assert max_seqlen_q == max_seqlen_k == max(LENGTHS) and q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
        out = torch.empty(q.shape)
        for start, end in zip(cu_seqlens_q[:-1].tolist(), cu_seqlens_q[1:].tolist(), strict=True):
            one, two, three = (x[start:end].transpose(0, 1) for x in (q, k, v))
            out[start:end] = F.scaled_dot_product_attention(one, two, three, scale=softmax_scale).transpose(0, 1)
        return out

    monkeypatch.setattr(FlashAttention, "kernel", types.SimpleNamespace(__call__=None), raising=True)
    monkeypatch.setattr(FlashAttention, "kernel", staticmethod(declared))
    backend = FlashAttention(HEAD_DIM)
    out = attend(backend, heads(torch.float32))
    expected = by_definition(*heads(torch.float32).split(HEADS, dim=1))
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)


def test_rotation():
    """By complex numbers: feature i and i + D/2 are a pair that is turned by its angle."""
    turned = torch.randn(5, 8, HEAD_DIM, dtype=torch.bfloat16)
    angle = torch.rand(5, 1, HEAD_DIM // 2)
    both = torch.cat((angle, angle), dim=-1)
    pairs = torch.complex(*turned.double().chunk(2, dim=-1)) * torch.polar(
        torch.ones_like(angle.double()), angle.double()
    )
    expected = torch.cat((pairs.real, pairs.imag), dim=-1)
    before = turned.clone()
    out = attention.BACKENDS["sdpa"](HEAD_DIM).rotate(turned, both.cos(), both.sin())
    assert out.dtype == torch.bfloat16 and torch.equal(turned, before)
    torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=1e-2)
    exact = attention.BACKENDS["sdpa"](HEAD_DIM).rotate(turned.float(), both.cos(), both.sin())
    torch.testing.assert_close(exact.double(), expected, rtol=1e-5, atol=1e-5)


def test_choice_of_a_backend(monkeypatch):
    assert packed_attention(CPU, torch.float32, 72).name == "sdpa"
    for able, expected in ((True, "cpu-bf16"), (False, "sdpa")):
        monkeypatch.setattr(bf16_cpu, "multiplies_bfloat16", lambda able=able: able)
        assert packed_attention(CPU, torch.bfloat16, 72).name == expected
    assert packed_attention(CPU, torch.float32, 72, "sdpa").name == "sdpa"
    with pytest.raises(
        ValueError, match="VLM_ATTENTION is 'cpu-bf16', which does not run torch.float32 on cpu; expected one of sdpa"
    ):
        packed_attention(CPU, torch.float32, 72, "cpu-bf16")


def test_settings():
    assert VisionSettings.from_environment({}) == VisionSettings(None, None)
    assert VisionSettings.from_environment({"VLM_ATTENTION": "", "VLM_PATCHES_PER_PASS": "99"}) == VisionSettings(
        None, 99
    )
    with pytest.raises(WrongValue, match=f"VLM_ATTENTION is 'fast'; expected one of {', '.join(attention.BACKENDS)}$"):
        VisionSettings.from_environment({"VLM_ATTENTION": "fast"})
    for wrong in ("0", "-1", "many", "1.5"):
        with pytest.raises(WrongValue, match=f"VLM_PATCHES_PER_PASS is '{wrong}'; expected a whole number"):
            VisionSettings.from_environment({"VLM_PATCHES_PER_PASS": wrong})


def test_images_are_shared_out_to_passes():
    grids = [(1, 2, 2), (1, 2, 4), (1, 10, 10), (1, 2, 2), (1, 2, 2)]
    for limit in range(1, 200):
        cut = list(passes.cut_into_passes(grids, limit))
        assert [grid for part in cut for grid in grids[part]] == grids
        for part in cut:
            assert len(grids[part]) == 1 or sum(rows * columns for _, rows, columns in grids[part]) <= limit
    assert len(list(passes.cut_into_passes(grids, 120))) == 1 and len(list(passes.cut_into_passes(grids, 1))) == 5


def test_a_pass_has_no_more_images_than_attention_takes():
    """128 requests of 8 images are more than the sequences that npu_fusion_attention is documented for."""
    grids = [(1, 2, 2)] * 1024
    cut = list(passes.cut_into_passes(grids, 1 << 16))
    assert [len(grids[part]) for part in cut] == [passes.MOST_IMAGES, 24]


def test_the_default_pass_follows_cache_and_memory(monkeypatch):
    config = PaddleOCRVLConfig().vision_config
    assert passes.last_level_cache() >= 1 << 18
    monkeypatch.setattr(passes, "last_level_cache", lambda: 32 << 20)
    on_cpu = passes.default_patches_per_pass(config, CPU, torch.bfloat16)
    assert 1024 <= on_cpu <= 4096
    monkeypatch.setattr(passes, "device_memory", lambda _: 64 << 30)
    on_npu = passes.default_patches_per_pass(config, torch.device("privateuseone"), torch.bfloat16)
    # The largest page, and 48.6 KB a patch: rotation in float32, heads of 128.
    assert 14400 < on_npu == int((64 << 30) * passes.MEMORY_SHARE) // 48_640


@pytest.fixture(scope="module")
def tower(one_rank):
    """A small tower and projector in float32, their weights as after loading."""
    vision = {"hidden_size": 96, "intermediate_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
    config = PaddleOCRVLConfig(vision_config=vision)
    model, projector = VisionModel(config.vision_config), Projector(config)
    generator = torch.Generator().manual_seed(0)
    for module in (model, projector):
        with torch.no_grad():
            for parameter in module.parameters():
                spread = parameter.shape[-1] ** -0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread + (parameter.ndim == 1))
        for layer in module.modules():
            if isinstance(layer, LinearBase) and layer.quant_method is not None:
                layer.quant_method.process_weights_after_loading(layer)
    return model, projector


GRIDS = [(1, 8, 12), (1, 4, 4), (1, 4, 4), (1, 20, 6), (1, 2, 50)]


@torch.inference_mode()
def encode(tower, patches: torch.Tensor, grids: list, limit: int) -> torch.Tensor:
    model, projector = tower
    model.vision_model.patches_per_pass = limit
    for layer in model.vision_model.encoder.layers:
        layer.mlp.rows = limit
    return projector(model(patches, grids))


def test_any_bound_and_any_crowd_give_the_same_features(tower):
    counts = [rows * columns for _, rows, columns in GRIDS]
    patches = torch.randn(sum(counts), 588, generator=torch.Generator().manual_seed(1))
    together = encode(tower, patches, GRIDS, 1 << 20)
    for limit in (1, 50, 130, 200):
        torch.testing.assert_close(encode(tower, patches, GRIDS, limit), together, rtol=1e-4, atol=1e-5)
    for part, grid, expected in zip(
        patches.split(counts), GRIDS, together.split([n // 4 for n in counts]), strict=True
    ):
        torch.testing.assert_close(encode(tower, part, [grid], 1 << 20), expected, rtol=1e-4, atol=1e-5)
