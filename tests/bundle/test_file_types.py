# SPDX-License-Identifier: Apache-2.0
"""One table of formats: run_demo.sh takes what it lists. tests/parser and tests/tools ask service and batch tool the
same."""

from __future__ import annotations

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
        (b"GIF89a", None),
        (b" " * 1024 + b"%PDF-", None),
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


def test_what_is_none_is_refused_with_the_list(tmp_path: Path):
    path = tmp_path / "document"
    path.write_bytes(b"GIF89a")
    with pytest.raises(UsageError, match=f"has an unknown format; expected {file_types.SUPPORTED}"):
        open_documents([str(path)])
