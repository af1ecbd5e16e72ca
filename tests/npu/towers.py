# SPDX-License-Identifier: Apache-2.0
"""Tower and projector of PaddleOCR-VL as on an NPU, on another device."""

from __future__ import annotations

import torch


def build(monkeypatch, backend: str, device: str, dtype: torch.dtype, vision: dict, text: dict | None = None):
    """Tower and projector as on an NPU, but on another device; `text` has the sizes of the language model."""
    from vlm_models.paddleocr_vl.attention import BACKENDS
    from vlm_models.paddleocr_vl.config import PaddleOCRVLConfig
    from vlm_models.paddleocr_vl.projector import Projector
    from vlm_models.paddleocr_vl.vision import VisionModel

    monkeypatch.setattr(BACKENDS[backend], "supports", classmethod(lambda *_: True))
    monkeypatch.setenv("VLM_ATTENTION", backend)
    monkeypatch.setenv("VLM_PATCHES_PER_PASS", "200")
    config = PaddleOCRVLConfig(**{**(text or {}), "vision_config": vision})
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return VisionModel(config.vision_config), Projector(config), config
    finally:
        torch.set_default_dtype(before)
