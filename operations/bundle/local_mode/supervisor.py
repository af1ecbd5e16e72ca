# SPDX-License-Identifier: Apache-2.0
"""Start, ask and stop supervisord. Its XML-RPC interface listens on a Unix socket."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import time
import xmlrpc.client
from glob import escape
from pathlib import Path
from typing import Any

from bundle.environments.setup import ENVIRONMENTS
from bundle.local_mode.settings import LocalSettings
from bundle.paths import CONFIG, ROOT, RUN_DIR, shown
from tool_errors import ServiceError, UsageError

# A program that may run several times has its processes in a group of its name.
PROCESSES = {"vlm": "vlm:vlm-0"}
START_SECONDS = 30
STOP_SECONDS = 60


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _UnixTransport(xmlrpc.client.Transport):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: object) -> _UnixConnection:
        return _UnixConnection(self._path)


class Supervisor:
    """One supervisord, found through its socket and its pid file."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._socket = settings.values["SUPERVISOR_SOCKET"]
        self._log = RUN_DIR / "logs" / "supervisord.log"
        self._process: subprocess.Popen[bytes] | None = None

    def _call(self, method: str, *arguments: object) -> Any:
        proxy = xmlrpc.client.ServerProxy("http://localhost", transport=_UnixTransport(self._socket))
        return getattr(proxy.supervisor, method)(*arguments)

    def pid(self) -> int | None:
        """Return the process id of the running supervisord, None if there is none."""
        try:
            return int(self._call("getPID"))
        except (OSError, http.client.HTTPException, xmlrpc.client.Error):
            return None

    def start(self) -> None:
        """Start supervisord in a session of its own: it outlives this call, and Ctrl-C does not reach it."""
        if escape(str(CONFIG)) != str(CONFIG):
            raise UsageError(
                f"{CONFIG}: supervisord cannot find its files in a folder with *, ? or [ in its path; move it"
            )
        self._log.parent.mkdir(parents=True, exist_ok=True)
        python = str(ENVIRONMENTS["tools"].python)
        command = [python, "-m", "supervisor.supervisord", "-c", str(CONFIG / "supervisord.conf")]
        console = self._log.with_name("supervisord-console.log")
        with os.fdopen(os.open(console, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as sink:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,  # relative paths of .env begin there, wherever this call was made
                env=dict(self._settings.values),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                umask=0o077,  # logs and pages are for this user alone; supervisord's own umask needs a daemon
            )
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            if self.pid():
                return
            time.sleep(0.05)
        raise ServiceError(f"supervisord did not start, see {shown(console)}")

    def state(self, program: str) -> str:
        """Return the state of a program: STOPPED, STARTING, RUNNING, BACKOFF, STOPPING, EXITED, FATAL or UNKNOWN."""
        return self.info(program)["statename"]

    def info(self, program: str) -> dict[str, Any]:
        """Return what supervisord says of a program: state, pid, exit status, start time."""
        return self._call("getProcessInfo", PROCESSES.get(program, program))

    def start_program(self, program: str) -> None:
        """Start a program and return at once; the service itself is asked whether it is ready."""
        try:
            self._call("startProcess", PROCESSES.get(program, program), False)
        except xmlrpc.client.Fault as fault:
            raise ServiceError(f"{program} could not be started: {fault.faultString}") from fault

    def stop_program(self, program: str) -> None:
        """Stop a program and wait until its processes are gone; nothing happens if it does not run."""
        try:
            self._call("stopProcess", PROCESSES.get(program, program), True)
        except xmlrpc.client.Fault:
            return

    def shut_down(self) -> None:
        """Stop the programs and supervisord itself, and wait until it is gone.

        Safe to call while it is still starting and does not answer yet.
        """
        pid = self._process.pid if self._process else self.pid() or pid_from_file(RUN_DIR / "supervisord.pid")
        if pid is None or not is_alive(pid):
            return
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if not is_alive(pid):
                return
            time.sleep(0.1)
        raise ServiceError(f"supervisord (process {pid}) does not end; see {shown(self._log)}")


def is_alive(pid: int) -> bool:
    """Tell whether a process lives; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def pid_from_file(path: Path) -> int | None:
    """Return the process that a pid file names, if it is a supervisord: the system may have reused the number."""
    try:
        pid = int(path.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if b"supervisord" in command else None
