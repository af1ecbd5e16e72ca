# SPDX-License-Identifier: Apache-2.0
"""Bills of materials in the archive: that of each image, as its build made it, and one of the archive itself, which
names the images and the weights."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bundle.image_build.bill import NAME, bill, component
from bundle.offline import contents
from bundle.offline.engine import docker
from bundle_version import VERSION
from served_weights.manifest import digest
from tool_errors import EnvironmentSetupError

HOME = "/opt/paddleocr-vl"


def of_images(images: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Name for a file -> the bill that the image carries. Raises EnvironmentSetupError for an image without one."""
    return {re.sub(r"[^\w.-]+", "_", image): of_image(image) for image in images}


def of_image(image: str) -> dict[str, Any]:
    """Read without running anything. Raises EnvironmentSetupError."""
    try:
        found = json.loads(file_of(image, f"{HOME}/{NAME}"))
    except (EnvironmentSetupError, OSError, ValueError) as error:
        raise EnvironmentSetupError(f"{image} has no bill of materials ({error}); build it again") from error
    if found.get("bomFormat") != "CycloneDX":
        raise EnvironmentSetupError(f"{image}: {HOME}/{NAME} is no bill of materials; build it again")
    return found


def file_of(image: str, path: str) -> str:
    """The text of a file in an image, from a container that is never started.

    Raises EnvironmentSetupError, OSError for a folder, and ValueError for what is no text.
    """
    container = docker("create", "--pull", "never", image, "never-started")
    try:
        with TemporaryDirectory() as folder:
            copy = Path(folder) / "copy"
            # A link's target in the image: the link itself would be followed on this machine.
            docker("cp", "--follow-link", f"{container}:{path}", str(copy))
            return copy.read_text(encoding="utf-8")
    finally:
        docker("rm", container)


def of_archive(images: Mapping[str, str], weights: Iterable[tuple[Path, str]]) -> dict[str, Any]:
    """`images` are names with the digests of their layers, `weights` files with their names in the archive."""
    parts = []
    for image, layers in images.items():
        name, _, tag = image.rpartition(":")
        hashes = [{"alg": "SHA-256", "content": layers}]
        parts.append(component("container", name or image, tag or "latest", hashes=hashes))
    for path, name in weights:
        if path.suffix in (".safetensors", ".pdiparams"):
            hashes = [{"alg": "SHA-256", "content": digest(path)}]
            parts.append(component("machine-learning-model", name, "", hashes=hashes))
    return bill("paddleocr-vl", VERSION, parts)


def write(folder: Path, bills: Mapping[str, dict[str, Any]]) -> list[tuple[Path, str]]:
    """Write the bills into a folder; returns them with their names in the archive."""
    written = []
    for name, found in bills.items():
        path = folder / f"{name}.cdx.json"
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append((path, f"{contents.BILLS}/{path.name}"))
    return written
