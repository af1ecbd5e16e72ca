# SPDX-License-Identifier: Apache-2.0
"""Every operator that the layout server calls on `npu`: the real torch_npu has a kernel of its own for it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from layout_server.device import open_device
from layout_server.interpreter import Interpreter
from layout_server.model import shapes_of
from layout_server.plan import Plan
from paddle_program.program import model_files, read_program
from tests.npu.kernels import without_kernel
from tests.support.layout_server import DEMO
from tests.support.published_operators import PUBLISHED
from tool_errors import DeviceError


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Of the demo's model."""
    program = read_program(*model_files(DEMO))
    return Plan(Interpreter(program), {name: torch.ones(shape) for name, shape in shapes_of(program).items()})


def test_the_check_finds_an_operator_without_a_kernel(torch_npu):
    assert without_kernel(["relu.default", "argmax.default", "scatter.src"]) == set()
    assert without_kernel(["segment_reduce.default", "relu.default"]) == {"segment_reduce.default"}


def test_the_demos_model(torch_npu, plan):
    names = {str(step.operator).removeprefix("aten.") for step in plan.steps}
    assert len(names) > 40 and without_kernel(names) == set()


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_published_architecture(torch_npu, model):
    """Deformable attention's grid sampling, the best queries, the pointer network."""
    called = PUBLISHED[model]
    assert {"grid_sampler_2d.default", "sort.stable", "native_layer_norm.default", "bmm.default"} <= called
    assert without_kernel(called) == set()


def test_what_the_server_asks_of_a_die_exists(torch_npu):
    npu = torch.npu  # type: ignore[attr-defined]  # torch_npu puts it there
    names = "device_count set_device set_per_process_memory_fraction set_compile_mode"
    assert [name for name in names.split() if not callable(getattr(npu, name, None))] == []
    assert isinstance(npu.conv.allow_hf32, bool) and isinstance(npu.matmul.allow_hf32, bool)
    with pytest.raises(DeviceError, match="LAYOUT_DEVICE is npu:3, but torch sees 0 dies; see npu-smi info"):
        open_device("npu:3", 0.1)


def test_no_step_is_in_double_precision_or_asks_for_another_device(plan):
    """Kernels of a die know no float64, and a tensor made on the host would have to be carried there."""
    for step in plan.steps:
        told = [*step.arguments, *step.keywords.values()]
        tensors = [value for value in told if isinstance(value, Tensor)]
        assert not any(value.dtype == torch.float64 for value in tensors) and torch.float64 not in told, step
        assert step.keywords.get("device") is None, step


def test_a_plan_runs_on_another_device_alone(plan):
    """The `meta` device: shapes and types of every step by torch's own rules. A constant left on the host fails."""
    shapes = {"image": (1, 3, 800, 800), "im_shape": (1, 2), "scale_factor": (1, 2)}
    plan.move_to(torch.device("meta"), {})  # the module's last test: the plan has no values any more
    rows, counts = plan({name: torch.empty(shape, device="meta") for name, shape in shapes.items()})
    assert (tuple(rows.shape), tuple(counts.shape)) == ((80, 8), (1,))
    assert rows.device.type == counts.device.type == "meta"
