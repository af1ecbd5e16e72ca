# SPDX-License-Identifier: Apache-2.0
"""CPU kernels under the names of the NPU operators that vllm-ascend calls for the language model.

They are written from the documentation and strict, as those of the tower (`simulated_npu_kernels`): tensors in one
piece of memory, shapes and dtypes as the reference of torch_npu names them. Attention is in
`simulated_attention_kernels`.
"""

from __future__ import annotations

import torch
from torch import Tensor


def packed(**tensors: Tensor) -> None:
    """Raise ValueError for a tensor that is a view with gaps: the operators read memory, not strides."""
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(f"{name} {tuple(tensor.shape)} with strides {tensor.stride()} is not contiguous")


def rows(**tensors: Tensor) -> None:
    """As `packed`, but there may be gaps between tokens: every release hands values over as a part of QKV's rows."""
    for name, tensor in tensors.items():
        if not tensor[:1].is_contiguous():
            raise ValueError(f"a row of {name} {tuple(tensor.shape)} with strides {tensor.stride()} is not contiguous")


def npu_mrope(positions, query, key, cos_sin_cache, head_size, *, mrope_section=None, rotary_mode="half"):
    """positions [tokens] or [3, tokens] int64; query, key [tokens, heads * head_size]; cache [rows, head_size]: cosines
    first. With three rows, section i of the angles is that of row i."""
    packed(positions=positions, query=query, key=key, cos_sin_cache=cos_sin_cache)
    tokens = len(query)
    if positions.dtype != torch.int64 or positions.shape not in ((tokens,), (3, tokens)):
        raise ValueError(f"positions {tuple(positions.shape)} {positions.dtype} for {tokens} tokens")
    if {query.dtype, key.dtype} != {cos_sin_cache.dtype} or cos_sin_cache.shape[1] != head_size:
        raise ValueError(f"cos_sin_cache {tuple(cos_sin_cache.shape)} {cos_sin_cache.dtype} for {query.dtype}")
    if rotary_mode != "half":
        raise ValueError(f"rotary_mode {rotary_mode!r}")
    sections = list(mrope_section or (0, 0, 0))
    if (sum(sections) != head_size // 2) if positions.ndim == 2 else any(sections):
        raise ValueError(f"mrope_section {sections} for positions {tuple(positions.shape)}, heads of {head_size}")
    cos, sin = cos_sin_cache[positions].chunk(2, dim=-1)
    if positions.ndim == 2:
        cos, sin = (torch.cat([part[i] for i, part in enumerate(x.split(sections, -1))], -1) for x in (cos, sin))

    def turn(x: Tensor) -> Tensor:
        first, second = x.view(tokens, -1, head_size).chunk(2, dim=-1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat((first * c - second * s, second * c + first * s), dim=-1).reshape(x.shape)

    return turn(query), turn(key)


def npu_rms_norm(value, gamma, epsilon=1e-6):
    """value [..., hidden], gamma [hidden]; returns the normed value and the reciprocal of the root, float32."""
    packed(value=value, gamma=gamma)
    if gamma.shape != value.shape[-1:] or gamma.dtype not in (value.dtype, torch.float32):
        raise ValueError(f"gamma {tuple(gamma.shape)} {gamma.dtype} for {tuple(value.shape)} {value.dtype}")
    root = (value.float().square().mean(-1, keepdim=True) + epsilon).rsqrt()
    return (value.float() * root).to(value.dtype) * gamma, root


def npu_add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    """Both [..., hidden]; returns the normed sum, the reciprocal of the root, and the sum."""
    if x1.shape != x2.shape or x1.dtype != x2.dtype:
        raise ValueError(f"{tuple(x1.shape)} {x1.dtype} and {tuple(x2.shape)} {x2.dtype}")
    packed(x1=x1, x2=x2)
    total = x1 + x2
    return (*npu_rms_norm(total, gamma, epsilon), total)


def npu_swiglu(value, dim=-1):
    """SiLU of the first half times the second half."""
    packed(value=value)
    if value.shape[dim] % 2:
        raise ValueError(f"{value.shape[dim]} features have no halves")
    first, second = value.chunk(2, dim=dim)
    return torch.nn.functional.silu(first) * second


def npu_reshape_and_cache(key, value, key_cache, value_cache, slot_indices):
    """key, value [tokens, heads, head_size] to the slots [tokens] int32 of caches [blocks, block, heads, head_size]."""
    rows(key=key, value=value)
    packed(key_cache=key_cache, value_cache=value_cache, slot_indices=slot_indices)
    if slot_indices.dtype != torch.int32 or slot_indices.shape != key.shape[:1] or key.shape != value.shape:
        raise ValueError(f"slots {tuple(slot_indices.shape)} {slot_indices.dtype} for {tuple(key.shape)}")
    for cache, part in ((key_cache, key), (value_cache, value)):
        if cache.shape[2:] != part.shape[1:]:
            raise ValueError(f"a cache {tuple(cache.shape)} for {tuple(part.shape)}")
        cache.view(-1, *part.shape[1:])[slot_indices.long()] = part


def npu_add_rms_norm_bias(x1, x2, gamma, beta=None, epsilon=1e-6):
    """The same with a bias [hidden] that is added at the end; an operator of vllm-ascend's own."""
    normed, root, total = npu_add_rms_norm(x1, x2, gamma, epsilon)
    if beta is not None and beta.shape != gamma.shape:
        raise ValueError(f"beta {tuple(beta.shape)} for gamma {tuple(gamma.shape)}")
    return normed if beta is None else normed + beta, root, total


def register(extension: bool = False) -> None:
    """Put the kernels behind the operators of the wheel, and of vllm-ascend's `extension` where it is loaded. All keep
    their schemas."""
    if extension:
        KEPT.append(torch.library.Library("_C_ascend", "IMPL"))
        KEPT[0].impl("npu_add_rms_norm_bias", npu_add_rms_norm_bias, "CPU")
    npu, atb = torch.library.Library("npu", "IMPL"), torch.library.Library("atb", "IMPL")
    for kernel in (npu_mrope, npu_rms_norm, npu_add_rms_norm, npu_swiglu):
        npu.impl(kernel.__name__, kernel, "CPU")
    atb.impl("_npu_reshape_and_cache", npu_reshape_and_cache, "CPU")
    KEPT.extend((npu, atb))


# A library's registrations end with the object.
KEPT: list[torch.library.Library] = []
