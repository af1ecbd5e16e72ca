# SPDX-License-Identifier: Apache-2.0
"""The SHA-256 manifest that may lie beside weights: a `SHA256SUMS` file in the format of sha256sum."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from .errors import WeightsError

NAME = "SHA256SUMS"
LINE = re.compile(r"^(?P<digest>[0-9a-f]{64}) [ *](?P<path>.+)$")


def entries(manifest: Path) -> dict[str, str]:
    """Relative path -> hex digest. Raises WeightsError for a line of another form or a path that leaves the folder."""
    result: dict[str, str] = {}
    for number, line in enumerate(manifest.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.match(line)
        if not match or Path(match["path"]).is_absolute() or ".." in Path(match["path"]).parts:
            raise WeightsError(f"{manifest}, line {number}: {line!r} is not '<sha256>  <path inside the folder>'")
        result[match["path"]] = match["digest"]
    return result


def verify(folder: Path) -> int:
    """Check every file that the manifest of `folder` lists; returns how many, 0 where there is no manifest.

    Every *.safetensors must be listed, so that a file cannot be slipped in. Raises WeightsError naming the first
    file that is missing, unlisted or different.
    """
    manifest = folder / NAME
    if not manifest.is_file():
        return 0
    listed = entries(manifest)
    for path in sorted(folder.glob("*.safetensors")):
        if path.name not in listed:
            raise WeightsError(f"{path} is not listed in {manifest.name}; remove it, or make the manifest anew")
    for name, digest in listed.items():
        path = folder / name
        if not path.is_file():
            raise WeightsError(f"{path} is missing, though {manifest.name} lists it; copy the weights again")
        with path.open("rb") as stream:
            actual = hashlib.file_digest(stream, "sha256").hexdigest()
        if actual != digest:
            raise WeightsError(f"{path} is damaged or not the published file: SHA-256 is {actual}, "
                               f"{manifest.name} says {digest}; copy the weights again")
    return len(listed)
