# SPDX-License-Identifier: Apache-2.0
"""The SHA-256 manifest of weights: a `SHA256SUMS` file beside them, in the format of sha256sum, or one made at first
use.

With a folder for state (STATE_DIR, a volume of the containers), a checked file is hashed again only if its size or time
of change differs. Weights without a manifest get one in that folder, so that a later change is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tool_errors import WeightsError

NAME = "SHA256SUMS"
DEMO_MARK = "# demo weights"  # first line of the manifest of the small weights that this project trained itself
DEMO_FOLDER = "demo"  # where these lie under MODELS_DIR
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


def is_demo(folder: str | Path) -> bool:
    """Whether weights are the demo's: the first line of the manifest says it, wherever the weights were copied.

    Without a manifest that can be read here (the weights may lie on another machine) the name of the folder around
    them says it.
    """
    folder = Path(folder).absolute()
    try:
        with (folder / NAME).open(encoding="utf-8", errors="replace") as manifest:
            return manifest.read(len(DEMO_MARK)) == DEMO_MARK
    except OSError:
        return folder.parent.name == DEMO_FOLDER


def digest(path: Path) -> str:
    """Hex SHA-256 of a file. Without hashlib.file_digest: the scripts for nodes run on Python 3.9 too."""
    sha = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            sha.update(chunk)
    return sha.hexdigest()


def write(folder: Path) -> int:
    """List every file of a folder in its manifest, which is replaced as a whole; returns how many."""
    part = folder / f"{NAME}.part"
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path not in (folder / NAME, part))
    part.write_text("".join(f"{digest(path)}  {path.relative_to(folder)}\n" for path in files), encoding="utf-8")
    part.replace(folder / NAME)
    return len(files)


def put(path: Path, text: str) -> None:
    """Write a file of the state whole or not at all. The replicas of a container may do so at the same moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class Known:
    """Digests of files by their size and time of change, kept in `<state>/verified.json`; without state nothing is
    kept."""

    def __init__(self, state: Path | None) -> None:
        self._path = state / "verified.json" if state else None
        self._entries: dict[str, list[object]] = {}
        if self._path:
            try:
                self._entries = json.loads(self._path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                self._entries = {}
        self._new = False

    def digest(self, path: Path) -> str:
        """The file's digest, computed only if the file has changed."""
        stat = path.stat()
        mark = [stat.st_size, stat.st_mtime_ns, stat.st_ino]
        entry = self._entries.get(str(path))
        if entry and entry[:-1] == mark:
            return str(entry[-1])
        value = digest(path)
        self._entries[str(path)], self._new = [*mark, value], True
        return value

    def keep(self) -> None:
        """Keep new digests. If that fails, the next start reads the files again."""
        if self._path and self._new:
            try:
                put(self._path, json.dumps(self._entries))
            except OSError as error:
                print(f"weights: digests are not kept in {self._path}: {error.strerror}", file=sys.stderr, flush=True)


def made_at_first_use(folder: Path, state: Path, known: Known) -> Path:
    """The kept manifest of weights that come without one. It is made at the first use, with a word on stderr."""
    manifest = state / "manifests" / f"{folder.name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}.sha256"
    if manifest.is_file():
        return manifest
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{known.digest(path)}  {path.relative_to(folder)}\n" for path in files]
    put(manifest, "".join(lines))
    print(
        f"weights: {folder} has no {NAME}, so they cannot be verified. Recorded the checksums of {len(files)} files; "
        "later changes will be refused",
        file=sys.stderr,
        flush=True,
    )
    return manifest


def verify(folder: Path, state: Path | None = None, must_list: Iterable[str] = ()) -> int:
    """Check every file that the manifest of `folder` lists; returns how many, 0 where there is no manifest.

    The manifest must list every *.safetensors, so that no file can be slipped in, and every file of `must_list`.
    Raises WeightsError naming the first file that is missing, unlisted or different.
    """
    manifest, known, remedy = folder / NAME, Known(state), "copy the weights again"
    if not manifest.is_file():
        if state is None:
            return 0
        manifest = made_at_first_use(folder, state, known)
        remedy += f", or, if they were replaced on purpose, remove {manifest}"
    listed = entries(manifest)
    for name in [*sorted(path.name for path in folder.glob("*.safetensors")), *must_list]:
        if name not in listed:
            raise WeightsError(
                f"{folder / name} is not listed in {manifest.name}; copy the weights again, or write the manifest again"
            )
    for name, expected in listed.items():
        path = folder / name
        if not path.is_file():
            raise WeightsError(f"{path} is missing, though {manifest.name} lists it; {remedy}")
        actual = known.digest(path)
        if actual != expected:
            raise WeightsError(
                f"{path} is damaged or not the published file: SHA-256 is {actual}, "
                f"{manifest.name} says {expected}; {remedy}"
            )
    known.keep()
    return len(listed)
