# SPDX-License-Identifier: Apache-2.0
"""Qwen2-VL and HunyuanOCR in layers of the published shapes, two of each kind, against transformers' own classes.

Minutes of processor time, so on demand: ``FAMILY_SHAPES=1``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.plugin.family_checkpoints import SERVED, Checkpoint, Made, check_agreement

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif("FAMILY_SHAPES" not in os.environ, reason="minutes of processor time; FAMILY_SHAPES=1 runs it"),
]


@pytest.mark.parametrize("family", SERVED)
def test_published_layer_shapes(family: str, reference_python: Path, tmp_path: Path):
    check_agreement(Made(Checkpoint(family, tmp_path, reference_python, small=False), reference_python))
