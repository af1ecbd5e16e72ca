# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL (Debian: postgresql) as a process of its own, with a data folder of its own, on loopback."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from free_ports import free_port
from tests.support.processes import child_environment
from tests.support.wait import wait_for

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
MISSING = "" if PROGRAMS else "needs postgresql (apt-get install)"


class PostgresServer:
    """``start`` and ``kill`` as often as wanted; ``end`` removes everything.

    fsync is off: what the kernel has survives a killed process, and no test cuts the power.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.port = free_port()
        self._user = _unprivileged(self.folder)
        self._databases = 0
        self._empty: list[str] = []  # URLs
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "-D", str(self.folder / "data"), "-U", "docparser", "-A", "trust", "--no-sync", "-E", "UTF8"
        )
        self.start()

    def start(self) -> None:
        settings = (
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "shared_buffers=16MB",
            "log_min_messages=log",
        )
        words = [word for setting in settings for word in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAMS[-1] / "postgres", "-D", self.folder / "data", "-p", str(self.port), *words],
                user=self._user,
                env=child_environment("PG"),
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self._answers, what="PostgreSQL")

    def kill(self) -> None:
        """SIGKILL for the server and everything that it started, as when its machine goes."""
        assert self._process is not None
        for pid in (self._process.pid, *self._backends()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        wait_for(lambda: not self._backends(), what="the end of PostgreSQL's backends")

    def start_if_killed(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.start()

    def end(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self.folder)

    @contextlib.contextmanager
    def lent(self) -> Iterator[str]:
        """The URL of an empty database, which is emptied afterwards for the next test: a new one is three hundred
        files, to be written and removed."""
        import psycopg

        url = self._empty.pop() if self._empty else self.database()
        yield url
        self.start_if_killed()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        self._empty.append(url)

    def database(self) -> str:
        """The URL of a new database."""
        import psycopg

        self._databases += 1
        name = f"jobs{self._databases}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql://docparser@127.0.0.1:{self.port}/{database}"

    def _answers(self) -> bool:
        import psycopg

        assert self._process is not None and self._process.poll() is None, (self.folder / "log").read_text()
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def _backends(self) -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").resolve() == self.folder / "data":
                    found.append(int(process.name))
        return found

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [PROGRAMS[-1] / program, *arguments],
            user=self._user,
            cwd=self.folder,
            env=child_environment("PG"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.returncode, done.stderr


def _unprivileged(folder: Path) -> str | None:
    """PostgreSQL refuses root: the user that it runs as, who owns ``folder``; None for the user of the tests."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            os.chown(folder, found.pw_uid, found.pw_gid)
            return name
    raise AssertionError("no unprivileged user")
