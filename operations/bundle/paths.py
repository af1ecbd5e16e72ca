# SPDX-License-Identifier: Apache-2.0
"""The folders and files of a checkout."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bundle import envfile
from tool_errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"
REQUIREMENTS = CONFIG / "requirements"
ENV_FILE = ROOT / ".env"
try:
    # Compose reads ~ as a home in the source of a mount or a build, and so do we in the names of all folders.
    VALUES = {
        name: os.path.expanduser(value) if name.endswith("_DIR") else value
        for name, value in envfile.merged(ENV_FILE).items()
    }
except UsageError as error:
    # Every script reads it while it is imported, and Compose ends too.
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_status)


def folder(variable: str, default: str) -> Path:
    """Return the folder that a setting names; a relative name starts at the repository root."""
    return (ROOT / (VALUES.get(variable) or default)).resolve()


ENVS_DIR = folder("ENVS_DIR", ".venvs")
RUN_DIR = folder("RUN_DIR", ".run")


def shown(path: Path) -> str:
    """Return a path as the user would type it: relative to the repository root if it lies below it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
