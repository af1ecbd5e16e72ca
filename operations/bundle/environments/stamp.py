# SPDX-License-Identifier: Apache-2.0
"""Stamps: a finished environment holds a hash of what it was made from, so that it is made only once."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

from bundle.paths import ROOT

NAME = ".made-from"


def digest(inputs: Iterable[Path], settings: Mapping[str, str] | None = None) -> str:
    """SHA-256 over the inputs' paths and bytes, the settings, the platform, and the place of the checkout.

    The place counts because our own packages are installed editable, by path.
    """
    sha = hashlib.sha256(f"{platform.machine()} {ROOT}\n".encode())
    for path in inputs:
        sha.update(f"{path.name}\n".encode() + path.read_bytes())
    for key, value in sorted((settings or {}).items()):
        sha.update(f"{key}={value}\n".encode())
    return sha.hexdigest()


def is_current(home: Path, inputs: Iterable[Path], settings: Mapping[str, str] | None = None) -> bool:
    """Whether the environment at `home` was finished from exactly these inputs."""
    stamp = home / NAME
    return stamp.is_file() and stamp.read_text().strip() == digest(inputs, settings)


def write_stamp(home: Path, inputs: Iterable[Path], settings: Mapping[str, str] | None = None) -> None:
    """Mark the environment as finished; written last, so an interrupted set-up is repeated."""
    (home / NAME).write_text(digest(inputs, settings) + "\n")


def clear_stamp(home: Path) -> None:
    """Remove the mark before an environment is changed."""
    (home / NAME).unlink(missing_ok=True)
