# SPDX-License-Identifier: Apache-2.0
"""The file of keys as a command changes it: line by line, so that remarks and order stay as they are."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from docparser.clients.key_ring import read_file
from docparser.clients.keys import Key


class KeyFile:
    """Changes are made one after the other, and a service never reads half of one. Methods raise OSError, NotReady."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, key: Key) -> None:
        with self._changing() as lines:
            lines.append(key.entry)

    def rotate(self, old: Key, new: Key, until: float) -> None:
        """Put ``new`` behind the client's other keys, which work until then at the latest."""
        with self._changing() as lines:
            self._end(lines, old.id, until)
            lines.append(new.entry)

    def expire(self, client: str, moment: float) -> None:
        with self._changing() as lines:
            self._end(lines, client, moment)

    def _end(self, lines: list[str], client: str, moment: float) -> None:
        for number, key in read_file(self.path, missing_ok=True):
            if key.id == client and (key.expires is None or key.expires > moment):
                lines[number - 1] = dataclasses.replace(key, expires=moment).entry

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[str]]:
        """The file's lines, which are written when the context ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            read_file(self.path, missing_ok=True)  # a file with a mistake is not written over
            lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
            yield lines
            self._write("".join(f"{line}\n" for line in lines))
            os.fsync(folder)
        finally:
            os.close(folder)

    def _write(self, text: str) -> None:
        new = self.path.with_name(f".{self.path.name}-{secrets.token_hex(8)}")
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                if self.path.exists():  # root may work on the file of a service's user
                    before = self.path.stat()
                    os.fchmod(file.fileno(), before.st_mode & 0o777)
                    with contextlib.suppress(PermissionError):
                        os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.replace(new, self.path)
        except OSError as exc:
            new.unlink(missing_ok=True)
            if exc.errno != errno.EBUSY:
                raise
            self.path.write_text(text, encoding="utf-8")  # one file mounted into a container cannot be replaced
