# SPDX-License-Identifier: Apache-2.0
"""The least that counts as weights, and sizes of published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# config.json and bytes of the weights, as published.
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "PaddleOCR-VL": (
        {"num_hidden_layers": 18, "num_key_value_heads": 2, "head_dim": 128, "hidden_size": 1024},
        1_900_000_000,
    ),
    "Qwen2-VL-7B-Instruct": (
        {
            "architectures": ["Qwen2VLForConditionalGeneration"],
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "num_attention_heads": 28,
            "hidden_size": 3584,
        },
        16_600_000_000,
    ),
    "HunyuanOCR": (
        {
            "architectures": ["HunYuanVLForConditionalGeneration"],
            "num_hidden_layers": 24,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        2_000_000_000,
    ),
}
SAFETENSORS = (2).to_bytes(8, "little") + b"{}"


def make_weights(folder: Path, model: str = "PaddleOCR-VL-0.9B") -> Path:
    """A new folder with a config.json, an empty safetensors file, and an inference.yml that names the model."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(SAFETENSORS)
    (folder / "inference.yml").write_text(f"Global:\n  model_name: {model}\n")
    return folder


def make_layout_files(folder: Path) -> None:
    """What the service looks for in a layout model's folder; simulated page work does not read it."""
    folder.mkdir()
    for name in ("inference.json", "inference.pdiparams", "inference.yml"):
        (folder / name).write_text("simulated")
