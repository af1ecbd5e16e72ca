# SPDX-License-Identifier: Apache-2.0
"""The documents to parse, and the folder of results of each."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path

from file_types import SUFFIXES
from tool_errors import UsageError


@dataclass(frozen=True)
class Document:
    """An input file; `name` is its path below the input folder, and the name of its folder of results."""

    path: Path
    name: Path

    @property
    def stem(self) -> str:
        return self.path.stem


def is_document(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith(".")


def in_folder(folder: Path, out: Path) -> list[Document]:
    """Return every document below a folder, except hidden ones and results of earlier runs."""
    found = []
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and (here / name).resolve() != out)
        found += [here / name for name in sorted(files) if is_document(here / name)]
    return [Document(path, path.relative_to(folder)) for path in found]


def fixed_part(pattern: str) -> Path:
    """Return the folders of a pattern before its first wildcard."""
    parts = Path(pattern).parts
    count = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:count])


def expand(word: str, out: Path) -> list[Document]:
    """Return the documents of one word of the command line: a file, a folder, or a pattern like 'in/**/*.pdf'.

    Raises UsageError if there are none.
    """
    path = Path(word)
    if path.is_file():
        return [Document(path, Path(path.name))]
    if path.is_dir():
        found = in_folder(path, out)
    elif glob.has_magic(word):
        base = fixed_part(word)
        paths = map(Path, sorted(glob.glob(word, recursive=True)))
        found = [Document(path, path.relative_to(base)) for path in paths if is_document(path)]
    else:
        raise UsageError(f"{word}: no such file or folder")
    if not found:
        raise UsageError(f"{word}: holds no document; expected files that end in {', '.join(SUFFIXES)}")
    return found


def collect(words: list[str], out: Path) -> list[Document]:
    """Return all documents, each once.

    Raises UsageError if two different ones would have the same folder of results.
    """
    by_name: dict[Path, Document] = {}
    for word in words:
        for document in expand(word, out.resolve()):
            other = by_name.setdefault(document.name, document)
            if other.path.resolve() != document.path.resolve():
                raise UsageError(
                    f"{document.path} and {other.path} would both be written to {out / document.name}; "
                    "name the folder that holds both, or use two calls with different --out folders"
                )
    return list(by_name.values())
