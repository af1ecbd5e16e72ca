# SPDX-License-Identifier: Apache-2.0
"""Recognises the formats of documents by their first bytes: one table for service, demo and batch tool. Standard
library only."""

from __future__ import annotations

from typing import NamedTuple

PDF, IMAGE = 0, 1  # fileType of the /layout-parsing contract
SUPPORTED = "PNG, JPEG, TIFF, BMP, WebP, GIF, JPEG 2000, AVIF, PPM or PDF"  # as messages name them
PDF_HEADER_WITHIN = 1024  # bytes; PDF readers accept some bytes before %PDF-
HEAD_BYTES = 4096  # the functions below look at so many bytes of a file


class Format(NamedTuple):
    """``name`` is Pillow's, or ``PDF``; ``signatures`` are (offset, bytes), any of which tells the format."""

    name: str
    signatures: tuple[tuple[int, bytes], ...]
    suffixes: tuple[str, ...]


FORMATS = (
    Format("PDF", ((0, b"%PDF-"),), (".pdf",)),
    Format("PNG", ((0, b"\x89PNG\r\n\x1a\n"),), (".png",)),
    Format("JPEG", ((0, b"\xff\xd8\xff"),), (".jpg", ".jpeg", ".jpe", ".jfif")),
    # Little- and big-endian; 42 is TIFF, 43 BigTIFF, whose offsets have 64 bits.
    Format("TIFF", ((0, b"II*\0"), (0, b"MM\0*"), (0, b"II+\0"), (0, b"MM\0+")), (".tif", ".tiff")),
    Format("BMP", ((0, b"BM"),), (".bmp",)),
    Format("WEBP", ((8, b"WEBP"),), (".webp",)),
    Format("GIF", ((0, b"GIF87a"), (0, b"GIF89a")), (".gif",)),
    Format("JPEG2000", ((4, b"jP  \r\n\x87\n"), (0, b"\xff\x4f\xff\x51")), (".jp2", ".j2k", ".jpx")),
    Format("AVIF", ((4, b"ftypavif"), (4, b"ftypavis")), (".avif",)),
    Format(
        "PPM",
        tuple((0, b"P%d%b" % (kind, blank)) for kind in range(1, 7) for blank in (b"\n", b"\r", b" ", b"\t")),
        (".ppm", ".pgm", ".pbm", ".pnm"),
    ),
)
# Formats that are sent by mistake: (offset, bytes, name, what to do with it). The first match counts.
PRINT, SAVE, UNPACK = "print it to a PDF", "save it as JPEG or PNG", "unpack it and send what is in it"
OTHERS = (
    *((4, b"ftyp" + brand, "a HEIC photo", SAVE) for brand in (b"heic", b"heix", b"heim", b"hevc", b"mif1", b"msf1")),
    (4, b"ftyp", "a film", "save its pictures as JPEG or PNG"),
    (0, b"8BPS", "a Photoshop picture", SAVE),
    (0, b"\xff\x0a", "a JPEG XL picture", SAVE),
    (4, b"JXL \r\n\x87\n", "a JPEG XL picture", SAVE),
    (0, b"\x97JB2\r\n\x1a\n", "a JBIG2 picture", SAVE),
    (0, b"\0\0\1\0", "an icon", SAVE),
    (0, b"AT&TFORM", "a DjVu document", PRINT),
    (0, b"%!PS", "a PostScript document", PRINT),
    (0, b"{\\rtf", "an RTF document", PRINT),
    (0, b"CAJ", "a CAJ document", PRINT),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document of the old kind (DOC, XLS, PPT, WPS)", PRINT),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (0, b"Rar!", "a RAR archive", UNPACK),
    (0, b"\x1f\x8b", "a gzip archive", UNPACK),
)
# The same for ZIP archives, by the name of a member near the beginning.
IN_ZIP = (
    (b"word/", "a Word document", PRINT),
    (b"xl/", "an Excel workbook", PRINT),
    (b"ppt/", "a PowerPoint presentation", PRINT),
    (b"OFD.xml", "an OFD document", PRINT),
    (b"opendocument.text", "an OpenDocument text", PRINT),
    (b"opendocument.", "an OpenDocument file", PRINT),
    (b"application/epub+zip", "an EPUB book", PRINT),
    (b"[Content_Types].xml", "an Office document", PRINT),
    (b"", "a ZIP archive", UNPACK),
)
SUFFIXES = tuple(suffix for known in FORMATS for suffix in known.suffixes)


def format_of(head: bytes) -> str | None:
    """The format's name by the first bytes of a file, or None for one that is not known. Looks at HEAD_BYTES."""
    for known in FORMATS:
        if any(head[offset : offset + len(magic)] == magic for offset, magic in known.signatures):
            return known.name
    return "PDF" if b"%PDF-" in head[:PDF_HEADER_WITHIN] else None


def other_format(head: bytes) -> tuple[str, str] | None:
    """The name of a format that is not read, and what to do with it: ("a Word document", "print it to a PDF")."""
    if head.startswith(b"PK\3\4"):
        return next((what, cure) for name, what, cure in IN_ZIP if name in head)
    for offset, magic, what, cure in OTHERS:
        if head[offset : offset + len(magic)] == magic:
            return what, cure
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "a web page", PRINT
    if start.startswith((b"<svg", b"<?xml")) and b"<svg" in start:
        return "an SVG drawing", SAVE
    return None


def refusal(head: bytes) -> str:
    """Why a file that begins with ``head`` is not read, as a predicate: "is a Word document; ..."."""
    if other := other_format(head):
        what, cure = other
        return f"is {what}, which is not read; {cure}"
    return f"{'has an unknown format' if head else 'is empty'}; expected {SUPPORTED}"


def file_type(name: str) -> int:
    """The ``fileType`` of a format's name."""
    return PDF if name == "PDF" else IMAGE
