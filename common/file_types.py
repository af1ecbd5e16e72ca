# SPDX-License-Identifier: Apache-2.0
"""The formats of documents, told by their first bytes: one table for service, demo and batch tool. Standard library
only."""

from __future__ import annotations

from typing import NamedTuple

PDF, IMAGE = 0, 1  # fileType of the /layout-parsing contract
SUPPORTED = "PNG, JPEG, TIFF, BMP, WebP or PDF"  # as messages name them
PDF_HEADER_WITHIN = 1024  # bytes; PDF readers accept some bytes before %PDF-
HEAD_BYTES = PDF_HEADER_WITHIN  # as much of a file as ``format_of`` looks at


class Format(NamedTuple):
    """``name`` is Pillow's, or ``PDF``; ``signatures`` are (offset, bytes), any of which tells the format."""

    name: str
    signatures: tuple[tuple[int, bytes], ...]
    suffixes: tuple[str, ...]


FORMATS = (
    Format("PDF", ((0, b"%PDF-"),), (".pdf",)),
    Format("PNG", ((0, b"\x89PNG\r\n\x1a\n"),), (".png",)),
    Format("JPEG", ((0, b"\xff\xd8\xff"),), (".jpg", ".jpeg")),
    # Little- and big-endian; 42 is TIFF, 43 BigTIFF, whose offsets have 64 bits.
    Format("TIFF", ((0, b"II*\0"), (0, b"MM\0*"), (0, b"II+\0"), (0, b"MM\0+")), (".tif", ".tiff")),
    Format("BMP", ((0, b"BM"),), (".bmp",)),
    Format("WEBP", ((8, b"WEBP"),), (".webp",)),
)
IMAGES = tuple(known.name for known in FORMATS if known.name != "PDF")
SUFFIXES = tuple(suffix for known in FORMATS for suffix in known.suffixes)


def format_of(head: bytes) -> str | None:
    """The format's name by the first bytes of a file, or None for one that is not known. Looks at HEAD_BYTES."""
    for known in FORMATS:
        if any(head[offset : offset + len(magic)] == magic for offset, magic in known.signatures):
            return known.name
    return "PDF" if b"%PDF-" in head[:PDF_HEADER_WITHIN] else None


def file_type(name: str) -> int:
    """The ``fileType`` of a format's name."""
    return PDF if name == "PDF" else IMAGE
