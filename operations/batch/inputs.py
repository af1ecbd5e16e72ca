# SPDX-License-Identifier: Apache-2.0
"""The documents to parse, and the folder of results of each."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path

from bundle import files
from file_types import HEAD_BYTES, SUFFIXES, format_of, refusal
from tool_errors import UsageError

UNREAD = "cannot be read"


@dataclass(frozen=True)
class Document:
    """An input file; `name` is its path below the input folder, and the name of its folder of results."""

    path: Path
    name: Path

    @property
    def stem(self) -> str:
        return files.stem(self.path)


@dataclass(frozen=True)
class LeftOut:
    """A file of a folder or pattern that is not parsed, and why. `name` is like a document's."""

    path: Path
    name: Path
    reason: str


Found = list[Document | LeftOut]


def sorted_out(path: Path, name: Path) -> Document | LeftOut:
    """A document, judged by its name's ending, or the reason why it is none."""
    if path.name.startswith("."):
        return LeftOut(path, name, "is hidden")
    try:
        if not path.is_file():
            return LeftOut(path, name, "is no file")
        if path.suffix.lower() in SUFFIXES:
            return Document(path, name)
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except OSError as error:
        return LeftOut(path, name, f"{UNREAD} ({error.strerror})")
    if format := format_of(head):
        return LeftOut(path, name, f"is a {format} by its content, not by its name's ending; name this file itself")
    return LeftOut(path, name, refusal(head))


def in_folder(folder: Path, out: Path) -> Found:
    """Return every file below a folder, and the folders that are not entered. Results of earlier runs are left out."""
    found: Found = []

    def leave_out(path: Path, why: str) -> None:
        found.append(LeftOut(path, path.relative_to(folder), why))

    def unread(error: OSError) -> None:
        leave_out(Path(error.filename), f"{UNREAD} ({error.strerror})")

    for place, folders, names in os.walk(folder, onerror=unread):
        here = Path(place)
        folders[:] = sorted(name for name in folders if (here / name).resolve() != out)
        for name in list(folders):
            if name.startswith(".") or os.path.islink(here / name):
                folders.remove(name)
                why = "is a hidden folder" if name.startswith(".") else "is a link to a folder, which is not followed"
                leave_out(here / name, why)
        found += [sorted_out(here / name, (here / name).relative_to(folder)) for name in sorted(names)]
    return found


def fixed_part(pattern: str) -> Path:
    """Return the folders of a pattern before its first wildcard."""
    parts = Path(pattern).parts
    count = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:count])


def expand(word: str, out: Path) -> Found:
    """Return what one word of the command line names: a file, a folder, or a pattern like 'in/**/*.pdf'. Results of
    earlier runs are left out.

    Raises UsageError if there is no document.
    """
    path = Path(word)
    if path.is_file():
        return [Document(path, Path(path.name))]
    if path.is_dir():
        found = in_folder(path, out)
    elif glob.has_magic(word):
        base = fixed_part(word)
        paths = [path for path in map(Path, sorted(glob.glob(word, recursive=True))) if not os.path.isdir(path)]
        if not base.resolve().is_relative_to(out):
            paths = [path for path in paths if not path.parent.resolve().is_relative_to(out)]
        found = [sorted_out(path, path.relative_to(base)) for path in paths]
    else:
        raise UsageError(f"{word}: no such file or folder")
    if not any(isinstance(one, Document) for one in found):
        unread = (f"; {one.path} {one.reason}" for one in found if isinstance(one, LeftOut) and UNREAD in one.reason)
        words = f"{word}: holds no document; expected files that end in {', '.join(SUFFIXES)}"
        raise UsageError(words + next(unread, ""))
    return found


def collect(words: list[str], out: Path) -> tuple[list[Document], list[LeftOut]]:
    """Return all documents, each once, and the files that are left out. A file that another word names is not left out.

    Raises UsageError if two documents would share a folder of results, or if a file is in the folder's place.
    """
    by_name: dict[Path, Document] = {}
    left_out: dict[str, LeftOut] = {}  # by path, because several folders may have such a name
    for word in words:
        for document in expand(word, out.resolve()):
            if isinstance(document, LeftOut):
                left_out[os.path.abspath(document.path)] = document
                continue
            other = by_name.setdefault(document.name, document)
            if other.path.resolve() != document.path.resolve():
                raise UsageError(
                    f"{document.path} and {other.path} would both be written to {out / document.name}; "
                    "name the folder that holds both, or use two calls with different --out folders"
                )
    for document in by_name.values():
        folder = out / document.name
        place = next(place for place in (folder, *folder.parents) if place.exists())
        if not place.is_dir():
            raise UsageError(
                f"--out {out}: the results of {document.path} need the folder {folder}, but {place} is a file; "
                "name another folder"
            )
        left_out.pop(os.path.abspath(document.path), None)
    return list(by_name.values()), list(left_out.values())
