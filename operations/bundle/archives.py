# SPDX-License-Identifier: Apache-2.0
"""Tar archives: those of texts that somebody carries out, and those that somebody carried in."""

from __future__ import annotations

import errno
import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tool_errors import ROOM, ToolError, UsageError


@contextmanager
def pack(path: Path, folder: str) -> Iterator[Callable[[str, str], None]]:
    """Write an archive of texts that only its owner can read. Gives a function (name, text) that adds a file below
    `folder`; the archive gets its name at the end, so that it appears whole or not at all.

    Raises UsageError where it cannot be begun, before anything is added, and where it cannot get its name. What else
    the caller's work raises passes.
    """
    if path.is_dir():
        raise UsageError(f"--out {path}: is a folder; expected the name of a file, like {path / f'{folder}.tar.gz'}")
    partial = path.with_name(path.name + ".part")
    with refused(path):
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as opened:

            def add(name: str, text: str) -> None:
                data = text.encode("utf-8", "replace")
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size, member.mtime, member.mode = len(data), int(time.time()), 0o600
                opened.addfile(member, io.BytesIO(data))

            yield add
        with refused(path):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Raise UsageError in the place of what the system says of the archive's own file."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"--out {path}: {error.strerror}; expected a file in a folder that you can write to"
        ) from error


def unpack(archive: Path, folder: Path) -> None:
    """Unpack `archive` into `folder`, and nothing outside of it.

    Raises UsageError if it is broken, or holds anything but plain files and folders that lie inside; ToolError where
    the disk is full.
    """
    try:
        with tarfile.open(archive) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(folder, filter="data")
            else:
                extract_plain(tar, folder)
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ToolError(f"{folder}: {error.strerror}, before all of {archive} was there; {ROOM}") from error
        raise UsageError(f"{archive} is broken or no tar archive ({error}); copy it again") from error


def extract_plain(tar: tarfile.TarFile, folder: Path) -> None:
    """Do what the `data` filter does for files and folders; Python 3.9 of older systems has no such filter."""
    for member in tar.getmembers():
        path = Path(member.name)
        if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name} is not a plain file or folder inside")
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        tar.extract(member, folder, set_attrs=True, numeric_owner=False)
