# SPDX-License-Identifier: Apache-2.0
"""A checkout as a reader of the guide has one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.paths import ROOT


def copy_checkout(folder: Path) -> Path:
    """The files that git would give to a reader, readable by everyone, as a clone's are."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in names.stdout.splitlines():
        source, target = ROOT / name, folder / name
        if source.is_file() and not source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    return folder
