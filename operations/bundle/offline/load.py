# SPDX-License-Identifier: Apache-2.0
"""Unpack and check the archive, take over settings, load its images, and look at the machine."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import declared_settings
from bundle import envfile, signature
from bundle.archives import unpack
from bundle.offline import contents, takeover
from bundle.offline.engine import docker, install_plugin, layers
from bundle.offline.to_build import PROCESSORS
from bundle.progress import say, step
from served_weights.manifest import digest
from tool_errors import EnvironmentSetupError, UsageError


def unpack_here(archive: Path) -> Path:
    """Unpack an archive into the current folder and check it; returns the bundle's folder.

    The folder gets its name only when every file in it is right. Raises UsageError for a damaged archive, and where
    the folder is there already.
    """
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".offline-") as scratch:
        with step(f"unpacking {archive}"):
            unpack(archive, Path(scratch))
        found = sorted(Path(scratch).iterdir())
        if len(found) != 1 or not found[0].name.startswith("paddleocr-vl"):
            raise UsageError(f"{archive} does not hold one folder paddleocr-vl-VERSION; give the archive of `save`")
        target = Path.cwd() / found[0].name
        if target.exists():
            raise UsageError(f"{target} is there already; remove it, or run {target}/scripts/offline_bundle.sh load")
        read_checked(found[0])
        shutil.move(str(found[0]), target)
    return target


def read_checked(folder: Path) -> dict[str, Any]:
    """Return the manifest of an unpacked archive after every file was compared with it. Raises UsageError."""
    try:
        manifest = json.loads((folder / contents.MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{folder / contents.MANIFEST} cannot be read ({error}); give the archive that `save` wrote, or copy it "
            "again"
        ) from error
    with step(f"checking {len(manifest['files'])} files"):
        for name, expected in manifest["files"].items():
            if not (folder / name).is_file() or digest(folder / name) != expected:
                raise UsageError(f"{folder / name} is missing or damaged; copy the archive again")
    return manifest


def check_signature(archive: Path, signers: Path | None) -> None:
    """Raise UsageError where `signers` are named and none of them signed the archive as it is."""
    if signers:
        with step(f"checking who signed {archive}"):
            name = signature.verify(archive, signers)
        say(f"{archive} is as {name} signed it")
    elif signature.beside(archive).is_file():
        say(f"NOTE: the signature of {archive} was not checked; --signers FILE checks it")


def check_processor(made_for: str | None) -> None:
    """Raise UsageError where the archive's images are for another processor than this machine's."""
    machine = platform.machine()
    if made_for and made_for != PROCESSORS.get(machine, machine):
        raise UsageError(
            f"the archive's images are for {made_for}, and this machine is {machine} ({PROCESSORS.get(machine)}); "
            "save one from images that were built for it"
        )


def unlike(values: Mapping[str, str], made_for: Mapping[str, str]) -> list[str]:
    """What .env says otherwise than the archive was made for; a line that is not there says the default."""
    said = {name: declared_settings.text(values, name) for name in made_for}
    return [
        f"{name} is {said[name]}, but the archive is for {value}"
        for name, value in made_for.items()
        if said[name] and said[name] != value
    ]


def load(folder: Path, old: Path | None, checked: bool = False) -> int:
    """Check every file unless that was done, take over what `old` has, load the images and compare their layers;
    returns preflight's exit status.

    Raises UsageError for a damaged file, for images for another processor and for an `old` that cannot be taken over,
    EnvironmentSetupError for an image that is not the one that was saved.
    """
    manifest = json.loads((folder / contents.MANIFEST).read_text()) if checked else read_checked(folder)
    check_processor(manifest.get("architecture"))
    if old:
        takeover.take_over(old, folder, manifest["files"])
    takeover.begin(folder, manifest["settings"])
    with step("loading the images"):
        docker("load", "--input", str(folder / contents.IMAGES))
    # An archive of before has their ids instead, which say nothing here: the images' file has a digest in any case.
    for image, expected in manifest.get("layers", {}).items():
        if layers(image) != expected:
            raise EnvironmentSetupError(f"{image} is not the image that was saved; remove it and load again")
    install_plugin(folder / contents.PLUGIN)
    for line in unlike(envfile.merged(folder / ".env"), manifest["settings"]):
        say(f"WARNING: {line}; fix {folder}/.env")
    if manifest.get("builds"):
        said = " ".join(f"{name}={value}" for name, value in manifest["settings"].items())
        say(
            f"next: run scripts/build_images.sh with {said} in .env; it builds the images from the carried files. "
            "System packages come from a package archive that this node reaches (APT_SOURCES)"
        )
    return subprocess.run([folder / "scripts/preflight.sh"], cwd=folder, check=False).returncode
