# SPDX-License-Identifier: Apache-2.0
"""A real S3 server (moto, in an environment of its own) on loopback, and a way to it that can be cut.

moto keeps objects in its memory, so they would go with it. Where the server is to be gone and to come back, its
connections are cut and refused instead.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

from tests.support.paths import python_of
from tests.support.processes import child_environment, free_port
from tests.support.wait import wait_for

PYTHON = python_of("s3")
MISSING = "" if PYTHON.exists() else "the environment s3 is missing; make it with: scripts/setup_env.sh s3"
# For the tests' server only; it asks for no right ones.
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


class S3Server:
    """``kill`` and ``start`` as often as wanted; ``end`` removes everything."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="s3-"))
        self._inner, self.port = free_port(), free_port()
        self._buckets = 0
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._inner)],
                env=child_environment() | KEYS,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self._answers, what="the S3 server")
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """How programs find it."""
        return KEYS | {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.port}", "AWS_EC2_METADATA_DISABLED": "true"}

    def bucket(self) -> str:
        """The URL of a place in a new bucket."""
        self._buckets += 1
        name = f"jobs-{os.getpid()}-{self._buckets}"
        self.client().create_bucket(Bucket=name)
        return f"s3://{name}/site/one"

    def client(self):
        """boto3's own, past the way that can be cut."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self._inner}",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128, reuse_port=False)
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def kill(self) -> None:
        """Cut all connections and refuse new ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            cut, self._open = self._open, set()
        for connection in cut:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def start_if_killed(self) -> None:
        if self._listener is None:
            self.start()

    def end(self) -> None:
        self.kill()
        self._process.kill()
        self._process.wait()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self.folder / "log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._inner), timeout=1):
            return True
        return False

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._inner))
            except OSError:
                near.close()
                continue
            with self._lock:
                self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for connection in (source, target):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with self._lock:
            if {source, target} <= self._open:
                self._open -= {source, target}
                return
        source.close()
        target.close()
