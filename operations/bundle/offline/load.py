# SPDX-License-Identifier: Apache-2.0
"""Unpack and check the archive, load its images, and look at the machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bundle.archives import unpack
from bundle.offline import contents
from bundle.offline.engine import docker, install_plugin
from bundle.progress import step
from served_weights.manifest import digest
from tool_errors import EnvironmentSetupError, UsageError


def unpack_here(archive: Path) -> Path:
    """Unpack an archive into the current folder; returns the bundle's folder."""
    with step(f"unpacking {archive}"):
        unpack(archive, Path.cwd())
    return Path.cwd() / contents.FOLDER


def load(folder: Path) -> int:
    """Check every file against its digest, load the images and compare their ids; returns preflight's exit status.

    Raises UsageError for a damaged file, EnvironmentSetupError for an image that is not the one that was saved.
    """
    try:
        manifest = json.loads((folder / contents.MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{folder / contents.MANIFEST} cannot be read ({error}); give the archive that `save` wrote"
        ) from error
    with step(f"checking {len(manifest['files'])} files"):
        for name, expected in manifest["files"].items():
            if not (folder / name).is_file() or digest(folder / name) != expected:
                raise UsageError(f"{folder / name} is missing or damaged; copy the archive again")
    with step("loading the images"):
        docker("load", "--input", str(folder / contents.IMAGES))
    for image, expected in manifest["images"].items():
        if docker("image", "inspect", "--format", "{{.Id}}", image) != expected:
            raise EnvironmentSetupError(f"{image} is not the image that was saved; remove it and load again")
    install_plugin(folder / contents.PLUGIN)
    return subprocess.run([folder / "scripts/preflight.sh"], check=False).returncode
