# SPDX-License-Identifier: Apache-2.0
"""One table of formats: run_demo.sh takes what it lists. tests/parser and tests/tools ask service and batch tool the
same."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest

import file_types
from bundle.demo.inputs import open_documents
from tool_errors import UsageError


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"%PDF-1.4", "PDF"),
        (b"junk\n%PDF-1.4", "PDF"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"\xff\xd8\xff\xe0", "JPEG"),
        (b"II*\0", "TIFF"),
        (b"MM\0*", "TIFF"),
        (b"II+\0\x08\0", "TIFF"),
        (b"MM\0+\0\x08", "TIFF"),
        (b"BM\0\0", "BMP"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "WEBP"),
        (b"GIF89a", "GIF"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG2000"),
        (b"\xff\x4f\xff\x51", "JPEG2000"),
        (b"\0\0\0\x20ftypavif", "AVIF"),
        (b"P5\n10 10", "PPM"),
        (b"P51 is a house", None),
        (b"\0\0\0\x20ftypheic", None),
        (b" " * 1019 + b"%PDF-", "PDF"),
        (b" " * 1020 + b"%PDF-", None),
        (b"", None),
    ],
)
def test_formats_are_told_by_content(head: bytes, name: str | None):
    assert file_types.format_of(head) == name


SIGNATURES = [(known.name, offset, magic) for known in file_types.FORMATS for offset, magic in known.signatures]


@pytest.mark.parametrize(("name", "offset", "magic"), SIGNATURES)
def test_the_demo_takes_every_format(tmp_path: Path, name: str, offset: int, magic: bytes):
    path = tmp_path / "document"
    path.write_bytes(bytes(offset) + magic)
    (document,) = open_documents([str(path)])
    assert document.kind == name and document.file_type == (0 if name == "PDF" else 1)


def zipped(*names: str, content: bytes = b"") -> bytes:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in names:
                archive.writestr(name, content)
        return buffer.getvalue()


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (zipped("[Content_Types].xml", "_rels/.rels", "word/document.xml"), "is a Word document, .* print it to a PDF"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "is an Excel workbook"),
        (zipped("[Content_Types].xml", "ppt/presentation.xml"), "is a PowerPoint presentation"),
        (zipped("[Content_Types].xml", "visio/document.xml"), "is an Office document"),
        (zipped("OFD.xml", "Doc_0/Document.xml"), "is an OFD document, .* print it to a PDF"),
        (zipped("mimetype", content=b"application/vnd.oasis.opendocument.text"), "is an OpenDocument text"),
        (zipped("mimetype", content=b"application/epub+zip"), "is an EPUB book"),
        (zipped("a.png"), "is a ZIP archive, .* unpack it"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an Office document of the old kind"),
        (b"\0\0\0\x20ftypheic", "is a HEIC photo, .* save it as JPEG or PNG"),
        (b"\0\0\0\x20ftypmif1", "is a HEIC photo"),
        (b"\0\0\0\x20ftypisom", "is a film"),
        (b"8BPS", "is a Photoshop picture"),
        (b"{\\rtf1", "is an RTF document"),
        (b"\xef\xbb\xbf\n<!DOCTYPE html>", "is a web page"),
        (b"<?xml version='1.0'?>\n<svg>", "is an SVG drawing"),
        (b"", "is empty; expected PNG"),
        (b"hello", "has an unknown format; expected PNG"),
    ],
)
def test_refusals_name_what_the_file_is_and_what_to_do(head: bytes, words: str):
    assert file_types.format_of(head) is None and re.match(words, file_types.refusal(head[: file_types.HEAD_BYTES]))


def test_what_is_none_is_refused_with_the_list(tmp_path: Path):
    path = tmp_path / "document"
    path.write_bytes(b"hello")
    with pytest.raises(UsageError, match=f"has an unknown format; expected {file_types.SUPPORTED}"):
        open_documents([str(path)])
