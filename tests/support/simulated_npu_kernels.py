# SPDX-License-Identifier: Apache-2.0
"""CPU kernels under the names of the NPU operators that we call, written from their documentation.

They are strict: an argument that the documentation does not allow is an error, also where a device might do
something with it. Sources: torch_npu's API reference for npu_fusion_attention and npu_rotary_mul; for
_npu_flash_attention_unpad, whose reference is thin, vllm-ascend's use of it.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attend(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool = False) -> Tensor:
    """Attention of the last tokens of one request or span, in float64: [new, heads, dim] over [all, key heads, dim].
    ``causal``: a token sees those up to itself."""
    new, total, groups = len(query), len(key), query.shape[1] // key.shape[1]
    q, k, v = (x.double().transpose(0, 1) for x in (query, key, value))
    scores = q @ k.repeat_interleave(groups, 0).transpose(1, 2) * scale
    if causal:
        future = torch.ones(new, total, dtype=torch.bool).triu(total - new + 1)
        scores = scores.masked_fill(future, -torch.inf)
    return (scores.softmax(-1) @ v.repeat_interleave(groups, 0)).transpose(0, 1).to(query.dtype)


def packed(query: Tensor, key: Tensor, value: Tensor, ends: list[int], scale: float) -> Tensor:
    """Attention inside each span; [T, N, D]."""
    spans = [slice(start, end) for start, end in zip([0, *ends], ends)]  # noqa: B905
    return torch.cat([attend(query[span], key[span], value[span], scale) for span in spans])


def npu_fusion_attention(
    query,
    key,
    value,
    head_num,
    input_layout,
    pse=None,
    padding_mask=None,
    atten_mask=None,
    scale=1.0,
    keep_prob=1.0,
    pre_tockens=2147483647,
    next_tockens=2147483647,
    inner_precise=0,
    prefix=None,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
    sparse_mode=0,
    *_,
):
    """TND: [T, N, D], sequences one after another; both lists hold cumulative lengths, the first of them not 0."""
    if input_layout != "TND":
        raise ValueError(f"input_layout {input_layout!r} with tensors of {query.ndim} dimensions")
    check_heads(query, key, value, head_num)
    for name, ends in (("actual_seq_qlen", actual_seq_qlen), ("actual_seq_kvlen", actual_seq_kvlen)):
        if not ends or ends[0] == 0 or ends[-1] != len(query) or any(a >= b for a, b in zip(ends, ends[1:])):  # noqa: B905
            raise ValueError(f"{name} {ends} is no list of cumulative lengths of {len(query)} patches")
    if list(actual_seq_qlen) != list(actual_seq_kvlen) or any(x is not None for x in (pse, padding_mask, atten_mask)):
        raise ValueError("self-attention without a mask is expected")
    nothing = query.new_empty(0)
    return packed(query, key, value, actual_seq_qlen, scale), nothing, nothing, nothing, 0, 0, 0


def npu_flash_attention_unpad(query, key, value, seq_len, scale_value, num_heads, num_kv_heads, out):
    """[T, N, D]; seq_len: int32 on the host, the length of each sequence."""
    check_heads(query, key, value, num_heads)
    if num_kv_heads != num_heads or out.shape != query.shape or not out.is_contiguous():
        raise ValueError("as many key heads, and an output like the query, are expected")
    if seq_len.dtype != torch.int32 or seq_len.device.type != "cpu" or seq_len.ndim != 1:
        raise ValueError(f"seq_len is {seq_len.dtype} on {seq_len.device}")
    if int(seq_len.sum()) != len(query) or int(seq_len.min()) < 1:
        raise ValueError(f"seq_len {seq_len.tolist()} does not add up to {len(query)}")
    out.copy_(packed(query, key, value, seq_len.cumsum(0).tolist(), scale_value))


def npu_rotary_mul(value, r1, r2, rotary_mode="half"):
    """[B, S, N, D] with r1, r2 [B or 1, S, 1, D] of the same type: x r1 + turn(x) r2."""
    expected = (1 if len(r1) == 1 else value.shape[0], value.shape[1], 1, value.shape[3])
    if r1.shape != expected or r2.shape != expected or {r1.dtype, r2.dtype} != {value.dtype}:
        raise ValueError(
            f"r1 {tuple(r1.shape)} {r1.dtype} and r2 {tuple(r2.shape)} for {tuple(value.shape)} {value.dtype}"
        )
    if rotary_mode == "half":
        first, second = value.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
    elif rotary_mode == "interleave":
        turned = torch.stack((-value[..., 1::2], value[..., ::2]), dim=-1).flatten(-2)
    else:
        raise ValueError(f"rotary_mode {rotary_mode!r}")
    return value * r1 + turned * r2


def npu_fast_gelu(value):
    """x times the sigmoid of 1.702 x, in one piece of memory."""
    if not value.is_contiguous():
        raise ValueError(f"a value {tuple(value.shape)} with strides {value.stride()} is not contiguous")
    return value * torch.sigmoid(1.702 * value)


def check_heads(query: Tensor, key: Tensor, value: Tensor, heads: int) -> None:
    if query.ndim != 3 or query.shape[1] != heads or not query.shape == key.shape == value.shape:
        raise ValueError(
            f"{heads} heads for query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        )
    if query.shape[-1] % 16 or not all(x.is_contiguous() for x in (query, key, value)):
        raise ValueError("contiguous tensors are expected, their heads a multiple of 16 wide")


def register() -> None:
    """Put the kernels behind the wheel's own operators, which keep their schemas."""
    npu, atb = torch.library.Library("npu", "IMPL"), torch.library.Library("atb", "IMPL")
    npu.impl("npu_fusion_attention", npu_fusion_attention, "CPU")
    npu.impl("npu_rotary_mul", npu_rotary_mul, "CPU")
    npu.impl("npu_fast_gelu", npu_fast_gelu, "CPU")
    atb.impl("_npu_flash_attention_unpad", npu_flash_attention_unpad, "CPU")
    # torch_npu has no shape function for this one; it writes to `out` and returns nothing.
    atb.impl("_npu_flash_attention_unpad", lambda *_, **__: None, "Meta")
    KEPT.extend((npu, atb))


# A library's registrations end with the object.
KEPT: list[torch.library.Library] = []
