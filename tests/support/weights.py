# SPDX-License-Identifier: Apache-2.0
"""The least that counts as weights."""

from __future__ import annotations

from pathlib import Path

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
