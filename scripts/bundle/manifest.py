# SPDX-License-Identifier: Apache-2.0
"""SHA-256 manifests of weights, written by the scripts and checked by the same code as the VLM's launcher has."""

from __future__ import annotations

import sys
from pathlib import Path

from .paths import ROOT

sys.path.append(str(ROOT / "model_code"))

from vlm_server.errors import WeightsError  # noqa: E402
from vlm_server.manifest import NAME, digest, verify  # noqa: E402

__all__ = ["NAME", "check_manifest", "digest", "write_manifest"]


def write_manifest(folder: Path) -> int:
    """List every file of a folder in its manifest, which is replaced as a whole; returns how many."""
    part = folder / f"{NAME}.part"
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path not in (folder / NAME, part))
    part.write_text("".join(f"{digest(path)}  {path.relative_to(folder)}\n" for path in files), encoding="utf-8")
    part.replace(folder / NAME)
    return len(files)


def check_manifest(folder: Path) -> str:
    """What is wrong with the files that a folder's manifest lists, empty where nothing is or where there is none."""
    try:
        verify(folder)
    except WeightsError as error:
        return str(error)
    return ""
