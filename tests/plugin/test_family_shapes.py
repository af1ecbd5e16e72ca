# SPDX-License-Identifier: Apache-2.0
"""Qwen2-VL and HunyuanOCR in layers of the published shapes, two of each kind, against transformers' own classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.family_checkpoints import SERVED, Checkpoint, Made, check_agreement

pytestmark = pytest.mark.model


@pytest.mark.parametrize("family", SERVED)
def test_published_layer_shapes(family: str, reference_python: Path, tmp_path: Path):
    check_agreement(Made(Checkpoint(family, tmp_path, reference_python, small=False), reference_python))
