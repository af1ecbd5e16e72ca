# SPDX-License-Identifier: Apache-2.0
"""Files that are chosen together."""

from __future__ import annotations

import shutil
from pathlib import Path


def copies(file, folder: Path, count: int) -> list[str]:
    """One document under several names."""
    folder.mkdir(parents=True)
    names = [folder / f"scan_{number:02}.pdf" for number in range(1, count + 1)]
    for name in names:
        shutil.copyfile(file(), name)
    return [str(name) for name in names]
