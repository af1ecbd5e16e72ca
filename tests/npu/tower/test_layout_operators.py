# SPDX-License-Identifier: Apache-2.0
"""Every operator that the layout server calls on `npu`: the real torch_npu has a kernel of its own for it.

For an operator without one torch_npu copies to the host, computes there and copies back; the device waits meanwhile.
The operators are those of plans of the demo's model and of the interpreter's functions that the published architecture
needs besides (grid sampling, the pointer network's masks, layer norms), each recorded as the server records them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from layout_server.interpreter import Interpreter
from layout_server.model import _shapes
from layout_server.operators import TABLE
from layout_server.operators.call import Call
from layout_server.plan import Plan, Recorder
from paddle_program.files import model_files
from paddle_program.program import Operation, Type, read_program
from tests.support.layout_server import DEMO

#: They only say where a tensor's values lie, so no kernel of a device runs.
VIEWS = {"expand", "permute", "slice", "squeeze", "unsqueeze", "view", "_unsafe_view", "transpose", "split", "unbind"}
#: Made of other operators by torch itself, on every device.
COMPOSITE = {"reshape"}
#: None. A name here needs an equivalent formulation with a test of its values.
ON_THE_HOST: set[str] = set()


def demo_plan() -> Plan:
    program = read_program(*model_files(DEMO))
    return Plan(Interpreter(program), {name: torch.ones(shape) for name, shape in _shapes(program).items()})


def recorded(name: str, inputs: list[Tensor], known: list[Tensor], **attributes: object) -> set[torch._ops.OpOverload]:
    """The operators of one of the interpreter's functions; ``inputs`` depend on the page."""
    count = len(inputs) + len(known)
    result = Type("float32", ())
    operation = Operation(name, tuple(range(count)), (count,), (result,), dict(attributes))
    recorder = Recorder()
    own = [value.clone() for value in inputs]
    for value in own:
        recorder.mark(value)
    with torch.no_grad(), recorder:
        TABLE[name](Call(operation, [*own, *known], [False] * len(own) + [True] * len(known)))
    return {step.operator for step in recorder.steps}


def published() -> dict[str, Callable[[], set[torch._ops.OpOverload]]]:
    """What PP-DocLayoutV2's published architecture calls besides, by the part that needs it."""
    maps, grid = torch.rand(8, 32, 25, 25), torch.rand(8, 300, 4, 2)
    rows, mask = torch.rand(1, 300, 64), torch.rand(1, 300, 300) > 0.5
    pairs = torch.zeros(1, 300, 2, dtype=torch.int64)
    axis = torch.tensor([1])
    return {
        "deformable attention": lambda: recorded(
            "grid_sample", [maps, grid], [], align_corners=False, mode="bilinear", padding_mode="zeros"
        ),
        "the best queries": lambda: recorded(
            "topk", [torch.rand(1, 13125)], [torch.tensor(300)], axis=1, largest=True, sorted=True
        ),
        "their places": lambda: recorded("gather_nd", [rows[0], pairs[0]], []),
        "the order of a mask": lambda: recorded(
            "argsort", [mask[:, 0].long()], [], axis=1, descending=True, stable=True
        ),
        "the pointer network's mask": lambda: recorded("tril", [torch.rand(1, 300, 300)], [], diagonal=-1),
        "its distances": lambda: recorded(
            "cumsum", [mask.long()], [axis], flatten=False, exclusive=False, reverse=False
        ),
        "its words": lambda: recorded("embedding", [pairs], [torch.rand(9, 4)], padding_idx=-1, sparse=False),
        "its logic": lambda: recorded("logical_not", [mask], []) | recorded("logical_or", [mask, ~mask], []),
        "layer norm": lambda: recorded(
            "layer_norm", [rows], [torch.rand(64), torch.rand(64)], begin_norm_axis=2, epsilon=1e-5
        ),
        "activations": lambda: (
            recorded("gelu", [rows], [], approximate=False)
            | recorded("silu", [rows], [])
            | recorded("tanh", [rows], [])
            | recorded("log", [rows], [])
            | recorded("sin", [rows], [])
            | recorded("cos", [rows], [])
            | recorded("softmax", [rows], [], axis=-1)
        ),
        "masked scores": lambda: recorded("where", [mask, rows @ rows.mT, rows @ rows.mT], []),
    }


def without_kernel(operators: set[torch._ops.OpOverload]) -> set[str]:
    """Those for which torch_npu registered nothing."""
    return {
        str(operator)
        for operator in operators
        if operator._schema.name.removeprefix("aten::") not in VIEWS | COMPOSITE
        and not torch._C._dispatch_has_kernel_for_dispatch_key(
            f"{operator._schema.name}.{operator._overloadname}".removesuffix(".default"), "PrivateUse1"
        )
        and not has_composite(operator)
    }


def has_composite(operator: torch._ops.OpOverload) -> bool:
    """torch computes it by other operators, the same on every device."""
    name = f"{operator._schema.name}.{operator._overloadname}".removesuffix(".default")
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
        for key in ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
    )


def test_the_check_finds_an_operator_without_a_kernel(torch_npu):
    assert without_kernel({torch.ops.aten.relu.default}) == set()
    assert without_kernel({torch.ops.aten.segment_reduce.default}) == {"aten.segment_reduce.default"}


def test_the_demos_model(torch_npu):
    plan = demo_plan()
    assert len(plan.operators) > 40
    assert without_kernel(plan.operators) == ON_THE_HOST


@pytest.mark.parametrize("part", sorted(published()))
def test_parts_of_the_published_architecture(torch_npu, part):
    assert without_kernel(published()[part]()) == ON_THE_HOST


def test_no_step_is_in_double_precision_or_asks_for_another_device(torch_npu):
    """Kernels of a die know no float64, and a tensor made on the host would have to be carried there."""
    for step in demo_plan().steps:
        told = [*step.arguments, *step.keywords.values()]
        tensors = [value for value in told if isinstance(value, Tensor)]
        assert not any(value.dtype == torch.float64 for value in tensors) and torch.float64 not in told, step
        assert step.keywords.get("device") is None, step
