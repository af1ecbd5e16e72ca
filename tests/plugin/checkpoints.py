# SPDX-License-Identifier: Apache-2.0
"""Changes that make a checkpoint look like a published one."""

from __future__ import annotations

import json
from pathlib import Path


def name_remote_code(directory: Path) -> None:
    """Add what would make transformers run code from the checkpoint; the code is not there."""
    config, images = directory / "config.json", directory / "preprocessor_config.json"
    remote = {
        "AutoConfig": "configuration_paddleocr_vl.PaddleOCRVLConfig",
        "AutoModelForCausalLM": "modeling_paddleocr_vl.PaddleOCRVLForConditionalGeneration",
    }
    config.write_text(json.dumps({**json.loads(config.read_text()), "auto_map": remote}))
    remote = {
        "AutoImageProcessor": "image_processing.SiglipImageProcessor",
        "AutoProcessor": "processing_paddleocr_vl.PaddleOCRVLProcessor",
    }
    published = {
        "auto_map": remote,
        "image_processor_type": "SiglipImageProcessor",
        "processor_class": "PaddleOCRVLProcessor",
    }
    images.write_text(json.dumps({**json.loads(images.read_text()), **published}))
