# SPDX-License-Identifier: Apache-2.0
"""Files that are uploaded first and named by a later request, as Mistral's clients do it. They wait in the spool folder
of this process, for an hour at most."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
import shutil
import time
from typing import BinaryIO

from docparser.clients.shares import Shares
from docparser.documents.spool import CHUNK, filled
from docparser.errors import FileNotFound, TooBusy
from docparser.settings import Settings

KEPT_S = 3600
LEAST = 4 << 20  # bytes that a file counts at least: each keeps a descriptor open


@dataclasses.dataclass(frozen=True)
class UploadedFile:
    id: str
    name: str
    size: int  # bytes
    created: float
    owner: str
    file: BinaryIO


class UploadedFiles:
    """All files together may have as many bytes as the bodies of requests (PARSER_MAX_BODIES_MIB), one client half of
    them. For one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.spool_dir
        self._shares = Shares(settings.max_bodies_mib << 20)
        self._files: dict[str, UploadedFile] = {}
        self._kept: dict[str, contextlib.ExitStack] = {}

    async def keep(self, content: BinaryIO, name: str, *, owner: str, holder: str) -> UploadedFile:
        """``owner`` alone may use the file, ``holder``'s share of bytes it takes. Raises TooBusy, SpoolFull."""
        size = content.seek(0, 2)
        content.seek(0)
        counted = max(size, LEAST)
        if self._shares.bound(holder, counted) is not None:
            raise TooBusy(
                f"The files that wait leave no room for {counted} bytes (PARSER_MAX_BODIES_MIB is "
                f"{self._shares.most >> 20}; one client has {self._shares.own >> 20}). Delete files that were read."
            )
        with contextlib.ExitStack() as stack:
            self._shares.take(holder, counted)
            stack.callback(self._shares.give_back, holder, counted)
            context = filled(self._folder, lambda file: shutil.copyfileobj(content, file, CHUNK))
            file = await asyncio.to_thread(stack.enter_context, context)
            kept = UploadedFile(secrets.token_hex(16), name, size, time.time(), owner, file)
            timer = asyncio.get_running_loop().call_later(KEPT_S, self._remove, kept.id)
            stack.callback(timer.cancel)
            self._files[kept.id] = kept
            self._kept[kept.id] = stack.pop_all()
        return kept

    def get(self, id: str, owner: str) -> UploadedFile:
        """Raises FileNotFound."""
        found = self._files.get(id)
        if found is None or found.owner != owner:
            raise FileNotFound(
                f"file_id: {id[:80]!r} is no file here; a file is gone when it is deleted, after an hour, and when the "
                "service starts again. Upload it again."
            )
        return found

    def delete(self, id: str, owner: str) -> None:
        """Raises FileNotFound."""
        self._remove(self.get(id, owner).id)

    def _remove(self, id: str) -> None:
        self._files.pop(id, None)
        if (stack := self._kept.pop(id, None)) is not None:
            stack.close()

    def close(self) -> None:
        for id in list(self._files):
            self._remove(id)
