# SPDX-License-Identifier: Apache-2.0
"""The files to parse: checked before anything is started."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .environments import ENVIRONMENTS
from .errors import UsageError

PDF, IMAGE = 0, 1  # fileType of the /layout-parsing contract
SIGNATURES: tuple[tuple[bytes, int, str], ...] = (
    (b"%PDF-", 0, "PDF"), (b"\x89PNG\r\n\x1a\n", 0, "PNG"), (b"\xff\xd8\xff", 0, "JPEG"), (b"II*\x00", 0, "TIFF"),
    (b"MM\x00*", 0, "TIFF"), (b"BM", 0, "BMP"), (b"WEBP", 8, "WebP"),
)


@dataclass(frozen=True)
class Document:
    """One input file. `kind` is the format's name, `stem` the name of the output files."""

    path: Path
    kind: str

    @property
    def stem(self) -> str:
        return self.path.stem

    @property
    def file_type(self) -> int:
        return PDF if self.kind == "PDF" else IMAGE


def kind_of(head: bytes) -> str | None:
    """Format by the first bytes of a file; a PDF may begin up to 1024 bytes in."""
    for signature, offset, kind in SIGNATURES:
        if head[offset:offset + len(signature)] == signature:
            return kind
    return "PDF" if b"%PDF-" in head[:1024] else None


def open_documents(paths: list[str]) -> list[Document]:
    """Check that each path is a file of a known format; raises UsageError for the first that is not."""
    documents: list[Document] = []
    for text in paths:
        path = Path(text)
        if not path.exists():
            raise UsageError(f"{text}: no such file")
        if not path.is_file():
            raise UsageError(f"{text}: not a file; expected an image (PNG, JPEG, TIFF, BMP, WebP) or a PDF")
        try:
            with path.open("rb") as stream:
                head = stream.read(1024)
        except OSError as error:
            raise UsageError(f"{text}: cannot be read ({error.strerror})") from error
        kind = kind_of(head)
        if kind is None:
            what = "is empty" if not head else "has an unknown format"
            raise UsageError(f"{text}: {what}; expected an image (PNG, JPEG, TIFF, BMP, WebP) or a PDF")
        documents.append(Document(path, kind))
    refuse_same_names(documents)
    return documents


def refuse_same_names(documents: list[Document]) -> None:
    """Two inputs of one stem would overwrite each other's output files."""
    seen: dict[str, Path] = {}
    for document in documents:
        if document.stem in seen:
            raise UsageError(f"{document.path} and {seen[document.stem]} would both be written to {document.stem}.md; "
                             "parse them in two calls with different --out folders")
        seen[document.stem] = document.path


def decode(documents: list[Document]) -> dict[str, int]:
    """Decode every document once in the parser's environment; returns pages by path.

    Raises UsageError for the first one that is broken, so that nothing has been started yet.
    """
    script = Path(__file__).with_name("decode_inputs.py")
    command = [str(ENVIRONMENTS["parser"].python), "-I", str(script),
               *(f"{document.kind}={document.path}" for document in documents)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise UsageError(result.stderr.strip().splitlines()[-1] if result.stderr.strip() else "an input cannot be read")
    return json.loads(result.stdout)
