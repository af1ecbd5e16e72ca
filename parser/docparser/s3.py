# SPDX-License-Identifier: Apache-2.0
"""An S3 bucket, in which documents and results lie that parsers on any machines share (docs/decisions/0261): objects
under a prefix, with errors in the parser's words. Imported only where PARSER_STORAGE_URL is set.

The endpoint, the region and the keys come from where all programs of AWS look for them: AWS_* variables, or the files
under ~/.aws.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import boto3
import botocore.config
import botocore.exceptions

from docparser.errors import NotReady, StorageAway, StorageUnavailable

SETTING = "PARSER_STORAGE_URL"
CONNECT_S, READ_S, TRIES = 5, 20, 3
CONNECTIONS = 32
MISSING = ("404", "NoSuchKey", "NotFound")
TAKEN = ("412", "PreconditionFailed", "ConditionalRequestConflict")
UNKNOWN = ("501", "NotImplemented", "InvalidArgument")
LATER = (408, 429)  # too slow, too many requests
SETTLE_S = 2.0  # longer than from a look to the write behind it
Failure = (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)


@dataclasses.dataclass(frozen=True)
class Entry:
    """An object: ``size`` in bytes; ``changed`` in seconds since the epoch, by the server's clock."""

    key: str
    size: int
    changed: float


class Bucket:
    """``url`` is ``s3://bucket/prefix``. Methods raise StorageUnavailable; any thread may call them.

    Most servers list every object that was written. Swift may list one late, or never if it is killed in between. So a
    listing proves presence, never absence.
    """

    def __init__(self, url: str, setting: str = SETTING) -> None:
        """``setting``: what messages call the place. Raises NotReady where endpoint, region or keys cannot be read."""
        self.url = url.rstrip("/")
        self._setting = setting
        self._bucket, _, prefix = self.url.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self.failure = ""  # in words, of a call since the last `probe`
        try:
            self._client = _client()
        except (*Failure, ValueError) as exc:
            raise NotReady(f"{setting}: {_words(exc)}; look at AWS_ENDPOINT_URL and the other AWS_* variables") from exc

    def probe(self) -> None:
        """Ask whether the bucket is there and may be used."""
        with self._named_errors():
            self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        self.failure = ""

    def put(self, key: str, content: bytes | BinaryIO) -> None:
        with self._named_errors():
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=content)

    def upload(self, key: str, path: Path) -> None:
        """Write the content of the file ``path``. Raises OSError for it."""
        with path.open("rb") as file:
            self.put(key, file)

    def put_new(self, key: str, content: bytes) -> bool:
        """Write an object that is not there; False if it is. On a server older than 2024, which knows no such request,
        it looks first and then writes, and another that looked at the same time may write over it: after SETTLE_S the
        one that stays is known to both."""
        try:
            with self._named_errors(expected=(*TAKEN, *UNKNOWN)):
                self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=content, IfNoneMatch="*")
            return True
        except botocore.exceptions.ClientError as exc:
            if _code(exc) in TAKEN:
                return False
        if self.get(key) is not None:
            return False
        self.put(key, content)
        time.sleep(SETTLE_S)
        return self.get(key) == content

    def get(self, key: str) -> bytes | None:
        """The content; None if there is no such object."""
        try:
            with self._named_errors(expected=MISSING):
                return self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"].read()
        except botocore.exceptions.ClientError:
            return None

    def download(self, key: str, path: Path) -> bool:
        """Write the content to ``path``; False if there is no such object. Raises OSError for the path."""
        try:
            with self._named_errors(expected=MISSING):
                body = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"]
                with path.open("wb") as file:
                    for piece in body.iter_chunks(1 << 20):
                        file.write(piece)
        except botocore.exceptions.ClientError:
            return False
        return True

    def entry(self, key: str) -> Entry | None:
        """None if there is no such object."""
        try:
            with self._named_errors(expected=MISSING):
                found = self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)
        except botocore.exceptions.ClientError:
            self.probe()  # this answer does not say whether the object or the bucket is missing
            return None
        return Entry(key, found["ContentLength"], _seconds(found["LastModified"]))

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """All objects whose key begins with ``prefix``, by key."""
        with self._named_errors():
            pager = self._client.get_paginator("list_objects_v2")
            for page in pager.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
                for found in page.get("Contents", ()):
                    yield Entry(found["Key"][len(self._prefix) :], found["Size"], _seconds(found["LastModified"]))

    def delete(self, key: str) -> None:
        with self._named_errors():
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def delete_all(self, prefix: str) -> None:
        """Delete all objects whose key begins with ``prefix``, one by one: some servers know no other way."""
        for found in list(self.entries(prefix)):
            self.delete(found.key)

    @contextlib.contextmanager
    def _named_errors(self, expected: tuple[str, ...] = ()) -> Iterator[None]:
        """Turns errors into StorageUnavailable, except answers with an ``expected`` code; into StorageAway unless the
        server refuses."""
        try:
            yield
        except Failure as exc:
            if isinstance(exc, botocore.exceptions.ClientError) and _code(exc) in expected and not _no_bucket(exc):
                raise
            self.failure = f"{self._setting}: {self.url} cannot be used ({_words(exc)})."
            raise (StorageUnavailable if _refused(exc) else StorageAway)(self.failure) from exc


def _client() -> Any:
    """Buckets are named in the path, except on AWS: other servers seldom have a host name for each. They are asked
    directly, as all services of a site: Docker gives its client's proxy to every container."""
    settings: dict[str, Any] = {
        "connect_timeout": CONNECT_S,
        "read_timeout": READ_S,
        "retries": {"mode": "standard", "total_max_attempts": TRIES},
        "max_pool_connections": CONNECTIONS,
        # Checksums beyond what S3 always had are unknown to many servers.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
    for name in [name for name, value in os.environ.items() if name.startswith("AWS_") and not value]:
        del os.environ[name]  # Compose passes unset variables as empty ones, which botocore takes for values
    session = boto3.session.Session()
    client = session.client("s3", config=botocore.config.Config(**settings))
    if ".amazonaws." not in client.meta.endpoint_url:
        client = session.client(
            "s3", config=botocore.config.Config(s3={"addressing_style": "path"}, proxies={}, **settings)
        )
    return client


def _code(exc: botocore.exceptions.ClientError) -> str:
    return str(exc.response.get("Error", {}).get("Code", ""))


def _no_bucket(exc: botocore.exceptions.ClientError) -> bool:
    return _code(exc) == "NoSuchBucket"


def _refused(exc: Exception) -> bool:
    """Whether trying again would not help. NoSuchBucket is no refusal: Swift answers so while the part of it that knows
    is away."""
    if not isinstance(exc, botocore.exceptions.ClientError) or _no_bucket(exc):
        return False
    status = exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return status < 500 and status not in LATER


def _words(exc: Exception) -> str:
    """The error for people. No error of botocore holds the keys."""
    return " ".join(str(exc).split())[:300]


def _seconds(moment: datetime.datetime) -> float:
    return moment.timestamp()
