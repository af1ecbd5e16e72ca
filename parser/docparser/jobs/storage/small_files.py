# SPDX-License-Identifier: Apache-2.0
"""Small files that all parsers over one place share, such as the key that signs addresses of results."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Protocol


class SmallFiles(Protocol):
    """Contents are whole or not there. Methods raise OSError or StorageUnavailable."""

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""

    def create(self, name: str, content: bytes) -> bool:
        """False if there is one already, which stays as it is."""

    def replace(self, name: str, content: bytes) -> None: ...

    def remove(self, name: str) -> None: ...

    def names(self, prefix: str) -> list[str]: ...


class FolderFiles:
    """Files in ``root``, for this user only, flushed to the disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError):
            return (self._root / name).read_bytes()
        return None

    def create(self, name: str, content: bytes) -> bool:
        new = self._written(name, content)
        try:
            os.link(new, self._root / name)
        except FileExistsError:
            return False
        finally:
            new.unlink()
        return True

    def replace(self, name: str, content: bytes) -> None:
        self._written(name, content).replace(self._root / name)

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def names(self, prefix: str) -> list[str]:
        return [path.name for path in self._root.iterdir() if path.name.startswith(prefix)]

    def _written(self, name: str, content: bytes) -> Path:
        path = self._root / f".{name}-{secrets.token_hex(8)}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return path
