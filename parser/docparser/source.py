# SPDX-License-Identifier: Apache-2.0
"""From the request's ``file`` to a document on disk: decoding, and telling what it is from its first bytes."""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docparser.errors import InvalidDocument, InvalidRequest, StorageFull

# (offset, first bytes, name). The names are Pillow's.
IMAGE_MAGIC = [
    (0, b"\x89PNG\r\n\x1a\n", "PNG"),
    (0, b"\xff\xd8\xff", "JPEG"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"II+\0", "TIFF"),
    (0, b"MM\0+", "TIFF"),
    (0, b"BM", "BMP"),
    (8, b"WEBP", "WEBP"),
]
SUPPORTED = "PNG, JPEG, TIFF, BMP, WebP or PDF"
PDF_HEADER_WITHIN = 1024  # readers accept some bytes before %PDF-
FILE_TYPES = {0: "PDF", 1: "image"}


@dataclasses.dataclass(frozen=True)
class Document:
    """A document that a worker can open: ``format`` is ``PDF`` or Pillow's name of an image format."""

    path: str
    format: str


def is_url(file: str) -> bool:
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", file) is not None


def decode(file: str) -> bytes:
    """The bytes of the request's ``file``; blanks and a ``data:...;base64,`` prefix are accepted.

    Raises InvalidRequest for what is not base64, and for an empty document.
    """
    if file.startswith("data:"):
        head, comma, file = file.partition(",")
        if not comma or not head.endswith(";base64"):
            raise InvalidRequest("file: a data URL must be of the form data:<type>;base64,<content>")
    try:
        data = base64.b64decode("".join(file.split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidRequest(f"file: not base64 ({exc}); send the document's bytes in base64") from None
    if not data:
        raise InvalidRequest(f"file: the document is empty; expected {SUPPORTED} in base64")
    return data


def sniff(data: bytes) -> str | None:
    """``PDF``, one of the image formats, or None."""
    for offset, magic, name in IMAGE_MAGIC:
        if data[offset : offset + len(magic)] == magic:
            return name
    return "PDF" if b"%PDF-" in data[:PDF_HEADER_WITHIN] else None


def check_type(data: bytes, file_type: int | None) -> str:
    """The document's format. Raises InvalidDocument if it is none that is supported, or not what ``fileType`` says."""
    found = sniff(data)
    if found is None:
        said = "" if file_type is None else f", although fileType is {file_type} ({FILE_TYPES[file_type]})"
        raise InvalidDocument(f"file: neither an image nor a PDF that is known here{said}; expected {SUPPORTED}")
    if file_type is not None and (found == "PDF") != (file_type == 0):
        right = 0 if found == "PDF" else 1
        raise InvalidDocument(
            f"fileType: {file_type} ({FILE_TYPES[file_type]}) was given, but file is a {found}; "
            f"send fileType {right} or leave it out"
        )
    return found


@contextlib.contextmanager
def spooled(data: bytes, format: str, folder: Path | None) -> Iterator[Document]:
    """The document as a file that exists as long as the context; readable by this user only. Raises StorageFull."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(
                tempfile.NamedTemporaryFile(prefix="docparser-", suffix=f".{format.lower()}", dir=folder)
            )
            file.write(data)
            file.flush()
        except OSError as exc:
            raise StorageFull(
                f"The parser's disk cannot take the document ({exc.strerror}); see PARSER_SPOOL_DIR."
            ) from None
        del data  # it is on disk now, and may be large
        yield Document(file.name, format)


def remove_stale(folder: Path | None) -> None:
    """Documents that a killed service left in its own spool folder."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("docparser-*"):
            path.unlink(missing_ok=True)
