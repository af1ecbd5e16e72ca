# SPDX-License-Identifier: Apache-2.0
"""Write the archive."""

from __future__ import annotations

import io
import json
import platform
import shutil
import tarfile
import tempfile
from pathlib import Path

import declared_settings
from bundle import origin, signature
from bundle.compose.images import hardware
from bundle.offline import bills, contents
from bundle.offline.engine import architecture, docker, find_plugin, layers, old_plugin, size
from bundle.offline.to_build import PROCESSORS, Parts
from bundle.paths import ROOT, VALUES
from bundle.progress import say, step
from bundle_version import VERSION
from served_weights.manifest import digest
from tool_errors import ROOM, ToolError


def made_for(weights: bool) -> dict[str, str]:
    """The settings by which a node takes these images, and no others, and the `weights` that travel with them."""
    own = {"HARDWARE": hardware(VALUES), "STACK": declared_settings.text(VALUES, "STACK")}
    if own["HARDWARE"] == "ascend":
        own["ATLAS"] = declared_settings.text(VALUES, "ATLAS")
    return {**own, "VLM_MODEL": VALUES["VLM_MODEL"]} if weights and VALUES.get("VLM_MODEL") else own


def lacking(folder: Path, needed: int) -> str:
    """What to say where fewer bytes than `needed` are free in a folder; an empty text where they are."""
    free = shutil.disk_usage(folder).free
    return "" if free >= needed else f"{folder}: {free / 2**30:.1f} GiB are free, and {needed / 2**30:.1f} are needed"


def save(archive: Path, images: list[str], weights: bool, key: Path | None = None, parts: Parts | None = None) -> None:
    """Write the archive with these images, and its signature by `key`; it gets its name only when it is whole, and
    what is not whole goes. With `parts` the images are bases, and the node builds.

    Raises ToolError, and OSError for a disk that is full.
    """
    part = archive.with_name(f"{archive.name}.part")
    of = parts.platform if parts else ()
    same = {image: layers(image, of) for image in images}
    made_from, processor = origin.origin(), architecture(images, of)
    stored = archive.with_name(f"{archive.name}.images")
    files = [(path, str(path.relative_to(ROOT))) for path in contents.tree_files()]
    root = origin.NAME
    files += parts.files if parts else []
    if weights:
        files += contents.weight_files()
    # A program for this machine's processor.
    plugin = find_plugin() if PROCESSORS.get(platform.machine()) == processor else None
    files += [(plugin, contents.PLUGIN)] if plugin else []
    others = sum(path.stat().st_size for path, _ in files)
    # containerd's store counts what docker save does not write.
    if short := lacking(archive.parent, others + 2 * sum(size(image, of) for image in images)):
        say(f"WARNING: {short}, if the images are as large as the engine says; {stored.name} is there until the end")
    folder = tempfile.TemporaryDirectory(dir=archive.parent, prefix=f".{archive.name}-")
    try:
        with step("the bills of materials"):
            own = bills.of_archive(same, [(path, name) for path, name in files if name.startswith("models/")])
            # Base images are others', and have none.
            carried = {} if parts else bills.of_images(images)
            files += bills.write(Path(folder.name), {"archive": own, **carried})
        (Path(folder.name) / origin.FILE).write_text(made_from.text(), encoding="utf-8")
        files.append((Path(folder.name) / origin.FILE, origin.FILE))
        with step(f"saving {', '.join(images)}"):
            docker("save", *of, "--output", str(stored), *images)
        files.append((stored, contents.IMAGES))
        if short := lacking(archive.parent, others + stored.stat().st_size):
            raise ToolError(f"{short}; {ROOM}, or give an ARCHIVE on another disk")
        with step(f"writing {archive}"), tarfile.open(part, "w", dereference=True) as tar:
            # The manifest comes first, so that a look at the archive shows what it is.
            # The images' digest takes minutes. The others' are taken after it: somebody may edit a file meanwhile.
            listed = {name: digest(path) for path, name in reversed(files)}
            manifest = {
                "version": VERSION,
                "revision": made_from.revision,
                "architecture": processor,
                "builds": bool(parts),
                "settings": made_for(weights) | (parts.settings if parts else {}),
                "layers": same,
                "files": listed,
            }
            text = json.dumps(manifest, indent=1).encode()
            info = tarfile.TarInfo(f"{root}/{contents.MANIFEST}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
            for path, name in files:
                tar.add(path, f"{root}/{name}")
        part.replace(archive)
    finally:
        folder.cleanup()
        for half in (stored, part):
            half.unlink(missing_ok=True)
    if key:
        signature.sign(archive, key)
    if warning := old_plugin(plugin):
        say(f"WARNING: {warning}")
    say(f"{archive}: {archive.stat().st_size / 2**30:.1f} GiB, {len(images)} images, {len(files)} files")
