# SPDX-License-Identifier: Apache-2.0
"""The files of a model, and their checksum: parser and layout server compare it, so that both mean the same model."""

from __future__ import annotations

import hashlib
from pathlib import Path


def model_files(model_dir: Path) -> tuple[Path, Path]:
    return model_dir / "inference.json", model_dir / "inference.pdiparams"


def checksum(path: Path) -> str:
    """SHA-256 of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_checksum(model_dir: Path) -> str:
    """SHA-256 of the program and its parameters. Raises OSError."""
    return hashlib.sha256("\n".join(map(checksum, model_files(model_dir))).encode()).hexdigest()
