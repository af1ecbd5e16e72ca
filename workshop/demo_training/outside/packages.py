# SPDX-License-Identifier: Apache-2.0
"""Files of Debian's packages, which are fetched and unpacked, not installed."""

from __future__ import annotations

import gzip
import subprocess
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=None)
def unpacked(package: str, cache: Path) -> Path:
    """The folder with the package's files. Raises CalledProcessError where it cannot be had."""
    folder = cache / package
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-q", package], cwd=cache, check=True, capture_output=True, timeout=300)
        archive = next(cache.glob(f"{package}_*.deb"))
        part = cache / f"{package}.part"
        subprocess.run(["dpkg-deb", "-x", archive, part], check=True, timeout=300)
        part.rename(folder)
        archive.unlink()
    return folder


def plain(path: Path) -> bytes:
    """The content of a file, or of its compressed form beside it."""
    for found in (path, path.with_name(f"{path.name}.gz"), path.with_name(path.name.removesuffix(".gz"))):
        if found.exists():
            return gzip.decompress(found.read_bytes()) if found.suffix == ".gz" else found.read_bytes()
    raise FileNotFoundError(f"{path} is not in the package; look whether the package has another version")
