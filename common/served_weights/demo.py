# SPDX-License-Identifier: Apache-2.0
"""Whether weights are the demo's: the small ones that this project trained itself."""

from __future__ import annotations

from pathlib import Path

from .manifest import NAME

MARK = "# demo weights"  # first line of their manifest
FOLDER = "demo"  # under MODELS_DIR


def is_demo(folder: str | Path) -> bool:
    """The first line of the manifest says it, wherever the weights were copied.

    Without a manifest that can be read here (the weights may lie on another machine) the name of the folder around
    them says it.
    """
    folder = Path(folder).absolute()
    try:
        with (folder / NAME).open(encoding="utf-8", errors="replace") as manifest:
            return manifest.read(len(MARK)) == MARK
    except OSError:
        return folder.parent.name == FOLDER
