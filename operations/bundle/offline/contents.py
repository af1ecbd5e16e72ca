# SPDX-License-Identifier: Apache-2.0
"""What the archive holds: one folder, `paddleocr-vl-VERSION/`, that works where it is unpacked."""

from __future__ import annotations

import re
from pathlib import Path

from bundle.paths import ROOT, VALUES
from served_weights.settings import WeightSettings
from served_weights.vlm import is_absent, named
from tool_errors import UsageError

# Names in that folder: ids of the images and digests of all files; the images; the Compose plugin; bills of materials.
MANIFEST, IMAGES, PLUGIN, BILLS = "offline.json", "images.tar", "docker-compose", "bills"
# Files and folders of the checkout that travel: what compose mounts, what the scripts for a node run, and the guides.
TREE = (
    "LICENSE",
    "README.md",
    "README.zh-CN.md",
    "CHANGELOG.md",
    ".env.example",
    "compose.yaml",
    "config",
    "scripts",
    "operations",
    "common",
    "docs",
    "models/README.md",
    "models/demo",
    # What the self-test and the acceptance send.
    "tests/data",
)


def version() -> str:
    """The bundle's version, as the images are tagged with it."""
    file = ROOT / "Dockerfile.cpu"  # an unpacked archive has none
    found = re.search(r"^ARG BUNDLE_VERSION=(\S+)$", file.read_text(), re.MULTILINE) if file.is_file() else None
    return found[1] if found else ""


def folder_name() -> str:
    """The archive's folder. Versions unpacked side by side do not touch each other."""
    return f"paddleocr-vl-{version()}"


def tree_files() -> list[Path]:
    """Return the files of the checkout that travel, without what Python and installers left behind."""
    found: list[Path] = []
    for name in TREE:
        path = ROOT / name
        found += [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return [path for path in found if not any(left_behind(part) for part in path.parts)]


def left_behind(name: str) -> bool:
    """Tell whether a file or folder is a by-product of Python or of an editable install."""
    return name == "__pycache__" or name.endswith((".pyc", ".egg-info"))


def weight_files() -> list[tuple[Path, str]]:
    """Return the files of the weights that would be served, with their names in the archive.

    Raises UsageError if there are none but the demo's.
    """
    settings = WeightSettings.from_environment(VALUES)
    folder = named(settings)[1]
    if not folder.is_relative_to(settings.models_dir) or is_absent(folder):
        raise UsageError(f"--weights: {folder} is not there; scripts/fetch_weights.sh")
    return [
        (path, f"models/{path.relative_to(settings.models_dir)}")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
