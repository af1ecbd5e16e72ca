# SPDX-License-Identifier: Apache-2.0
"""An archive of texts, readable by its owner only, that appears whole or not at all."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tool_errors import UsageError


@contextmanager
def archive(path: Path, folder: str) -> Iterator[Callable[[str, str], None]]:
    """Give a function (name, text) that adds a file below `folder`; the archive gets its name at the end.

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
