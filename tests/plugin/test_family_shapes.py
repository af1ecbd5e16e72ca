# SPDX-License-Identifier: Apache-2.0
"""Qwen2-VL and HunyuanOCR in layers of the published shapes, one of each kind, against transformers' own classes.

Of each family where this environment's vLLM has it. Checkpoint, reference and plugin are processes that run one after
the other, so that a machine of 24 GiB with two cores has room for them.
"""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.plugin.families import FEW
from tests.plugin.family_checkpoints import SERVED, Checkpoint, Made, check_agreement

MOST_BYTES = 8 << 30  # of the largest process

pytestmark = pytest.mark.model


def most_of_children() -> int:
    """Bytes that the largest of all processes has had that this one waited for."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10


@pytest.mark.long
@pytest.mark.parametrize("family", SERVED)
def test_published_layer_shapes(family: str, reference_python: Path, tmp_path: Path):
    before = most_of_children()
    checkpoint = Checkpoint(family, tmp_path, reference_python, small=False)
    check_agreement(Made(checkpoint, reference_python, FEW[family], new_tokens=0))
    most = most_of_children()
    print(f"{family}: the largest process took {'at most ' if most == before else ''}{most / 2**20:.0f} MiB")
    assert most == before or most < MOST_BYTES
