# SPDX-License-Identifier: Apache-2.0
"""Kernels of the CPU's attention against float64, in PyTorch's threads."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.support.threads import torch_threads
from vlm_models import kernels
from vlm_models.kernels.attention import divide, exponentials, split_heads

# Half a unit in the last place of bfloat16, and what float32 adds to it.
ROUNDING = 2**-8 * 1.01
THREADS = [1, 2, 3]


@pytest.fixture(params=THREADS)
def threads(request):
    with torch_threads(request.param):
        yield request.param


def random(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * scale).bfloat16()


@pytest.mark.parametrize(("rows", "length"), [(1, 1), (2, 3), (5, 31), (7, 64), (3, 1501)])
@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
def test_exponentials(threads, rows, length, scale):
    scores = random(rows, length, scale=scale)
    out, sums = scores.clone(), torch.full((rows + 1,), -7.0)
    exponentials()(out, sums, rows, length)
    expected = torch.exp(scores.double() - scores.double().amax(-1, keepdim=True))
    # Below a normal number of float32 nothing matters beside the row's 1.
    assert ((out.double() - expected).abs() <= expected * 1.03 * ROUNDING + 2**-125).all()
    torch.testing.assert_close(sums[:rows].double(), expected.sum(-1), rtol=2e-4, atol=0)
    assert sums[rows] == -7  # and nothing behind


@pytest.mark.parametrize(
    "row",
    [[-300.0, 0.0, 300.0], [-5.0, -5.0], [3e38, -3e38], [0.0, -0.0], [-1e4, -1e4 - 64.0]],
    ids=["far apart", "equal", "largest", "zeros", "all far below zero"],
)
def test_exponentials_of_extremes(row):
    scores = torch.tensor([row]).bfloat16()
    expected = torch.softmax(scores.double(), -1)
    sums = torch.empty(1)
    exponentials()(scores, sums, 1, len(row))
    torch.testing.assert_close(scores.double() / sums, expected, rtol=1.03 * ROUNDING, atol=1e-30)


@pytest.mark.parametrize(("group", "rows", "size"), [(1, 1, 1), (2, 3, 72), (3, 50, 32)])
def test_divide(threads, group, rows, size):
    heads, sums = random(group, rows, size), torch.rand(group, rows) + 0.5
    out = torch.full((rows, group + 2, size), 9.0).bfloat16()
    divide()(heads, sums, out[:, 1:], group, rows, size, (group + 2) * size)
    expected = (heads.double() / sums.double()[..., None]).transpose(0, 1)
    torch.testing.assert_close(out[:, 1 : 1 + group].double(), expected, rtol=ROUNDING, atol=0)
    assert (out[:, 0] == 9).all() and (out[:, -1] == 9).all()


@pytest.mark.parametrize(("heads", "size", "length"), [(1, 2, 1), (2, 72, 5), (4, 32, 17)])
def test_split_heads(threads, heads, size, length):
    qkv = random(length, 3 * heads, size)
    angle = (torch.rand(length, 1, size // 2) * 6).repeat(1, 1, 2)
    out = torch.empty(3, heads, length, size, dtype=torch.bfloat16)
    split_heads(heads, size)(qkv, angle.cos(), angle.sin(), out, length)
    pairs = torch.complex(*qkv[:, : 2 * heads].double().chunk(2, dim=-1))
    turned = pairs * torch.polar(torch.ones_like(angle), angle)[..., : size // 2].to(pairs.dtype)
    turned = torch.cat((turned.real, turned.imag), dim=-1).transpose(0, 1)
    turned[:heads] *= size**-0.5
    torch.testing.assert_close(out[:2].flatten(0, 1).double(), turned, rtol=ROUNDING, atol=1e-6)
    assert torch.equal(out[2], qkv[:, 2 * heads :].transpose(0, 1))


def test_kernels_run_beside_each_other_in_threads_of_the_caller():
    """As two models in a process would run them: nothing is shared but the code."""
    scores = [random(40, 301 + i) for i in range(8)]

    def run(values: torch.Tensor) -> torch.Tensor:
        sums = torch.empty(len(values))
        exponentials()(values, sums, *values.shape)
        return values.double() / sums[:, None]

    expected = [torch.softmax(one.double(), -1) for one in scores]
    with ThreadPoolExecutor(4) as pool:
        for out, wanted in zip(pool.map(run, scores), expected, strict=True):
            torch.testing.assert_close(out, wanted, rtol=1.03 * ROUNDING, atol=0)


@pytest.mark.long
def test_numba_is_loaded_for_this_backend_only():
    """Other devices start without it."""
    program = (
        "import sys; from vlm_models.paddleocr_vl.attention import packed_attention; import torch; "
        "packed_attention(torch.device('cpu'), torch.float32, 72); print('llvmlite' in sys.modules)"
    )
    assert kernels.available()
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert out.stdout.split()[-1] == "False"
