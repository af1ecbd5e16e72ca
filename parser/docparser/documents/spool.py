# SPDX-License-Identifier: Apache-2.0
"""Documents as files in the spool folder, for as long as somebody works on them."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from docparser.errors import disk_errors

CHUNK = 1 << 20  # bytes


@dataclasses.dataclass(frozen=True)
class Document:
    """A document that a worker can open: ``format`` is ``PDF`` or Pillow's name of an image format."""

    path: str
    format: str

    @contextlib.contextmanager
    def opened(self) -> Iterator[OpenDocument]:
        with open(self.path, "rb") as file:
            yield OpenDocument(file.fileno(), self.format)


@dataclasses.dataclass(frozen=True)
class OpenDocument:
    """A document for a renderer, which may open no files: ``file`` is a descriptor."""

    file: int
    format: str


def close(file: BinaryIO | tempfile.SpooledTemporaryFile[bytes]) -> None:
    """Closing writes the rest to a full disk once more, and that error would hide the first."""
    with contextlib.suppress(OSError):
        file.close()


@contextlib.contextmanager
def filled(folder: Path | None, fill: Callable[[BinaryIO], object] = lambda file: None) -> Iterator[BinaryIO]:
    """A file with what ``fill`` writes, which exists as long as the context; only this user can read it.

    Raises SpoolFull, and what ``fill`` raises.
    """
    with contextlib.ExitStack() as stack:
        with disk_errors():
            file = cast(BinaryIO, tempfile.NamedTemporaryFile(prefix="docparser-", dir=folder))  # noqa: SIM115
            stack.callback(close, file)
            fill(file)
            file.flush()
            file.seek(0)
        yield file


@contextlib.contextmanager
def spooled(content: BinaryIO, format: str, folder: Path | None) -> Iterator[Document]:
    """The rest of ``content`` as a document. Raises SpoolFull."""
    with filled(folder, lambda file: shutil.copyfileobj(content, file, CHUNK)) as file:
        yield Document(file.name, format)


def remove_stale(folder: Path | None) -> None:
    """Make the service's own spool folder, and remove the documents and folders that a killed service left in it."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("docparser-*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
