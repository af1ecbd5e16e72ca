# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all, and JSON in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bundle.files import as_json, printable, stem, whole, write

__all__ = ["printable", "read_json", "stem", "whole", "write", "write_json"]


def write_json(path: Path, value: Any) -> None:
    """Write a value as one line of JSON."""
    write(path, as_json(value))


def read_json(path: Path) -> Any:
    """Return what the file holds, or None if it is missing or is no JSON (after a full disk, say)."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
