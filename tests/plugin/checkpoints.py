# SPDX-License-Identifier: Apache-2.0
"""Changes that make a checkpoint look like a published one."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer

# Of the 1001 places that spotting answers with, those that the small vocabulary has room for.
PLACES = [f"<|LOC_{number}|>" for number in range(50)]


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


def name_version(directory: Path, name: str) -> None:
    """Let random weights of PaddleOCR-VL pass for 1.5's or 1.6's, whose ``name`` inference.yml has."""
    (directory / "inference.yml").write_text(f"Global:\n  model_name: {name}\n")
    file = directory / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.add_tokens(PLACES)
    tokenizer.save(str(file))
    name_remote_code(directory)
