# SPDX-License-Identifier: Apache-2.0
"""The least that counts as weights of a VLM."""

from __future__ import annotations

from pathlib import Path

SAFETENSORS = (2).to_bytes(8, "little") + b"{}"


def make_weights(folder: Path) -> Path:
    """A new folder with a config.json and an empty safetensors file."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(SAFETENSORS)
    return folder
