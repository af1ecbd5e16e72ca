# SPDX-License-Identifier: Apache-2.0
"""Whether a folder holds a model of a family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tool_errors import UsageError

from .families import FAMILIES


def check_checkpoint(directory: Path) -> dict[str, Any]:
    """The checkpoint's config.json. Raises UsageError unless the folder holds a family's model in safetensors."""
    values = config_of(directory)
    if not any(directory.glob("*.safetensors")):
        raise UsageError(f"--model_path {directory}: has no *.safetensors, the only format that is loaded")
    return values


def model_type(directory: Path) -> str:
    """The family's name in config.json. Raises UsageError."""
    return str(config_of(directory)["model_type"])


def config_of(directory: Path) -> dict[str, Any]:
    """config.json of a known family. Raises UsageError."""
    config = directory / "config.json"
    if not config.is_file():
        raise UsageError(f"--model_path {directory}: has no config.json; expected a folder with a model's weights")
    try:
        values = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{config}: is not JSON ({error}); copy it again") from None
    if values.get("model_type") not in FAMILIES:
        known = ", ".join(map(repr, FAMILIES))
        raise UsageError(f"{config}: model_type is {values.get('model_type')!r}; expected one of {known}")
    return dict(values)
