# SPDX-License-Identifier: Apache-2.0
"""Small files that all parsers read again and again, in a bucket: a look is good for some seconds."""

from __future__ import annotations

import threading
import time

from docparser.s3.bucket import Bucket

GOOD_S = 5.0


class BucketFiles:
    """The same methods as ``jobs.storage.data_folder.FolderFiles``."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, bytes]] = {}
        self._listed: dict[str, tuple[float, list[str]]] = {}

    def read(self, name: str) -> bytes | None:
        with self._lock:
            looked, content = self._seen.get(name, (-GOOD_S, b""))
        if time.monotonic() - looked < GOOD_S:
            return content
        found = self._bucket.get(name)
        with self._lock:
            if found is None:
                self._seen.pop(name, None)
            else:
                self._seen[name] = time.monotonic(), found
        return found

    def create(self, name: str, content: bytes) -> bool:
        return self._bucket.put_new(name, content)

    def replace(self, name: str, content: bytes) -> None:
        self._bucket.put(name, content)
        self._forget()

    def remove(self, name: str) -> None:
        self._bucket.delete(name)
        self._forget()

    def names(self, prefix: str) -> list[str]:
        with self._lock:
            looked, names = self._listed.get(prefix, (-GOOD_S, []))
        if time.monotonic() - looked < GOOD_S:
            return names
        names = [entry.key for entry in self._bucket.entries(prefix)]
        with self._lock:
            self._listed[prefix] = time.monotonic(), names
        return names

    def _forget(self) -> None:
        with self._lock:
            self._seen.clear()
            self._listed.clear()
