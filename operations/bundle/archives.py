# SPDX-License-Identifier: Apache-2.0
"""Unpack tar archives that somebody carried in; nothing may land outside of the folder."""

from __future__ import annotations

import errno
import tarfile
from pathlib import Path

from tool_errors import ROOM, ToolError, UsageError


def unpack(archive: Path, folder: Path) -> None:
    """Unpack `archive` into `folder`.

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
