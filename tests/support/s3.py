# SPDX-License-Identifier: Apache-2.0
"""S3 servers on loopback, in an environment of their own. `S3Server` is moto and a way to it that can be cut;
`tests.support.swift` is one that can be killed.

moto keeps objects in its memory, so they would go with it. Where the server is to be gone and to come back, the relay
before it is killed: its connections break, and new ones are refused.
"""

from __future__ import annotations

import abc
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from free_ports import free_port
from tests.support.paths import python_of
from tests.support.processes import child_environment
from tests.support.wait import wait_for

PYTHON = python_of("s3")
MISSING = "" if PYTHON.exists() else "the environment s3 is missing; make it with: scripts/setup_env.sh s3"
REGION = "us-east-1"
# For the tests' server only; it asks for no right ones.
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}


class BucketServer(abc.ABC):
    """``kill`` and ``start`` as often as wanted; ``end`` removes everything.

    Programs find it at ``port``; ``client`` asks at ``inner_port``.
    """

    def __init__(self, keys: dict[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="s3-"))
        self.inner_port = self.port = free_port()
        self._keys = keys
        self._buckets = 0

    @property
    def environment(self) -> dict[str, str]:
        """How programs find it."""
        return self._keys | {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.port}",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def bucket(self) -> str:
        """The URL of a place in a new bucket."""
        self._buckets += 1
        name = f"jobs-{os.getpid()}-{self._buckets}"
        self.client().create_bucket(Bucket=name)
        return f"s3://{name}/site/one"

    def client(self):
        """boto3's own."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.inner_port}",
            aws_access_key_id=self._keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self._keys["AWS_SECRET_ACCESS_KEY"],
            region_name=REGION,
        )

    @abc.abstractmethod
    def start(self) -> None: ...

    @abc.abstractmethod
    def kill(self) -> None: ...

    @abc.abstractmethod
    def start_if_killed(self) -> None: ...

    @abc.abstractmethod
    def end(self) -> None: ...


class S3Server(BucketServer):
    """moto; ``client`` goes past the way that can be cut."""

    def __init__(self) -> None:
        super().__init__(KEYS)
        self.inner_port = free_port()
        self._server = self._run(str(PYTHON), "moto.server", "-H", "127.0.0.1", "-p", str(self.inner_port))
        wait_for(lambda: self._answers(self.inner_port), what="the S3 server")
        self._relay: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self._relay = self._run(sys.executable, "tests.support.relay", str(self.port), str(self.inner_port))
        wait_for(lambda: self._answers(self.port), what="the way to the S3 server")

    def kill(self) -> None:
        """Cut all connections; new ones are refused."""
        assert self._relay is not None
        self._relay.kill()
        self._relay.wait()

    def start_if_killed(self) -> None:
        if self._relay is not None and self._relay.poll() is not None:
            self.start()

    def end(self) -> None:
        for process in (self._relay, self._server):
            if process is not None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder)

    def _run(self, python: str, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [python, "-m", module, *arguments],
                env=child_environment() | KEYS,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _answers(self, port: int) -> bool:
        ended = [p for p in (self._server,) if p.poll() is not None]
        assert not ended, (self.folder / "log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False
