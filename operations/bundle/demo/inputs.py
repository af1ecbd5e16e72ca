# SPDX-License-Identifier: Apache-2.0
"""The files to parse, which are checked before anything is started."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import file_types
from bundle import files
from bundle.environments.setup import ENVIRONMENTS
from bundle.progress import last_line
from tool_errors import UsageError


@dataclass(frozen=True)
class Document:
    """One input file. `kind` is the format's name, `stem` the name of the output files."""

    path: Path
    kind: str

    @property
    def stem(self) -> str:
        return files.stem(self.path)

    @property
    def file_type(self) -> int:
        return file_types.file_type(self.kind)


def open_documents(paths: list[str]) -> list[Document]:
    """Check that each path is a file of a known format; raises UsageError for the first that is not."""
    documents: list[Document] = []
    for text in paths:
        path = Path(text)
        if not path.exists():
            raise UsageError(f"{text}: no such file")
        if not path.is_file():
            raise UsageError(f"{text}: not a file; expected {file_types.SUPPORTED}")
        try:
            with path.open("rb") as stream:
                head = stream.read(file_types.HEAD_BYTES)
        except OSError as error:
            raise UsageError(f"{text}: cannot be read ({error.strerror})") from error
        kind = file_types.format_of(head)
        if kind is None:
            raise UsageError(f"{text}: {file_types.refusal(head)}")
        documents.append(Document(path, kind))
    refuse_same_names(documents)
    return documents


def refuse_same_names(documents: list[Document]) -> None:
    """Raise UsageError if two inputs have the same stem: they would overwrite each other's output files."""
    seen: dict[str, Path] = {}
    for document in documents:
        if document.stem in seen:
            raise UsageError(
                f"{document.path} and {seen[document.stem]} would both be written to {document.stem}.md; "
                "parse them in two calls with different --out folders"
            )
        seen[document.stem] = document.path


def decode(documents: list[Document]) -> dict[str, int]:
    """Read every document once with the parser's own reader, in its environment; returns pages by path.

    Raises UsageError for the first one that is broken; nothing has been started by then.
    """
    command = [
        str(ENVIRONMENTS["parser"].python),
        "-I",
        "-m",
        "docparser.documents.reader",
        *(f"{document.kind}={document.path}" for document in documents),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise UsageError(last_line(result.stderr, otherwise="an input cannot be read"))
    return json.loads(result.stdout)
