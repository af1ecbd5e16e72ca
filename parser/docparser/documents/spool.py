# SPDX-License-Identifier: Apache-2.0
"""Documents as files in the spool folder, for as long as somebody works on them."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from docparser.errors import SpoolFull

CHUNK = 1 << 20  # bytes


@dataclasses.dataclass(frozen=True)
class Document:
    """A document that a worker can open: ``format`` is ``PDF`` or Pillow's name of an image format."""

    path: str
    format: str


@contextlib.contextmanager
def spooled(content: BinaryIO, format: str, folder: Path | None) -> Iterator[Document]:
    """The rest of ``content`` as a file that exists as long as the context; only this user can read it.

    Raises SpoolFull.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(
                tempfile.NamedTemporaryFile(prefix="docparser-", suffix=f".{format.lower()}", dir=folder)
            )
            shutil.copyfileobj(content, file, CHUNK)
            file.flush()
        except OSError as exc:
            raise SpoolFull(
                f"The parser's disk cannot take the document ({exc.strerror}); see PARSER_SPOOL_DIR."
            ) from None
        yield Document(file.name, format)


def remove_stale(folder: Path | None) -> None:
    """Make the service's own spool folder, and remove the documents that a killed service left in it."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("docparser-*"):
            path.unlink(missing_ok=True)
