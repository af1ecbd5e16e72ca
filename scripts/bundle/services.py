# SPDX-License-Identifier: Apache-2.0
"""The two services in local mode: start what is not running, wait until it is ready, stop what this call started."""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path

from health_probe import Probe, probe

from .errors import ServiceError, UsageError
from .paths import RUN_DIR, shown
from .progress import Ticker, say, step
from .settings import LocalSettings
from .supervisor import Supervisor

STATE_FILE = RUN_DIR / "services.json"
# What vLLM and the parser put before a message: level, date and time, source. Other lines say nothing to a user.
MESSAGE = re.compile(r"^.*?(?:INFO|WARNING) .*?(?:\]|:) ")
ALIVE = {"STARTING", "RUNNING", "BACKOFF"}


class Services:
    """VLM server and parser under one supervisord.

    What a call starts is noted before it is started, so that `undo` can stop exactly that at any moment.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._supervisor = Supervisor(settings)
        self._started_supervisor = False
        self._started: dict[str, int] = {}
        self._log_begins: dict[str, int] = {}

    def running(self) -> bool:
        """Whether a supervisord of this checkout runs."""
        return self._supervisor.pid() is not None

    def check(self) -> None:
        """Before anything is touched: the services that run are the ones wanted, and free ports for the rest.

        Raises UsageError.
        """
        running = self._supervisor.pid() is not None
        if running and STATE_FILE.is_file():
            recorded = json.loads(STATE_FILE.read_text())
            for name, value in self._settings.identity.items():
                if recorded.get(name, "") != value:
                    raise UsageError(f"services are running with {name}={recorded.get(name, '')}, not {name}={value}; "
                                     "stop them first: scripts/run_demo.sh --down")
        for program, host, port, setting in (
            ("vlm", self._settings.vlm_host, self._settings.vlm_port, "VLM_PORT"),
            ("parser", self._settings.parser_host, self._settings.parser_port, "PARSER_PORT"),
        ):
            if not (running and self._supervisor.state(program) in ALIVE):
                check_port(program, host, port, setting)

    def start(self) -> None:
        """Start supervisord and both programs where they do not run; returns without waiting for readiness."""
        if self._supervisor.pid() is None:
            self._started_supervisor = True
            self._supervisor.start()
            STATE_FILE.write_text(json.dumps(self._settings.identity, indent=1) + "\n")
        for program in ("vlm", "parser"):
            if self._supervisor.state(program) not in ALIVE:
                say(f"starting {program}, log: {shown(self._log(program))}")
                self._started[program] = 0
                self._log_begins[program] = size(self._log(program))
                self._supervisor.start_program(program)
                self._started[program] = self._supervisor.info(program)["pid"]

    def wait_ready(self) -> dict[str, object]:
        """Wait until the VLM answers, then until the parser is ready; returns what it says of the weights in use.

        Raises ServiceError when a service ends or takes longer than READY_TIMEOUT.
        """
        self._wait("vlm", "the VLM server to load its model", self._settings.vlm_health)
        ready = self._wait("parser", "the parser to be ready", f"{self._settings.parser_url}/health/ready")
        try:
            return json.loads(ready.detail)["result"]
        except (ValueError, KeyError):
            return {}

    def undo(self) -> None:
        """Stop what this call started."""
        if self._started_supervisor:
            self._supervisor.shut_down()
            STATE_FILE.unlink(missing_ok=True)
            return
        for program in reversed(list(self._started)):
            self._supervisor.stop_program(program)

    def down(self) -> bool:
        """Stop the services, whoever started them; returns whether any were running."""
        running = self._supervisor.pid() is not None
        if running:
            with step("stopping the services"):
                self._supervisor.shut_down()
        STATE_FILE.unlink(missing_ok=True)
        return running

    def _log(self, program: str) -> Path:
        return RUN_DIR / "logs" / f"{program}.log"

    def _wait(self, program: str, what: str, url: str) -> Probe:
        result = probe(url)
        if result.healthy:
            return result
        with step(f"waiting for {what}") as ticker:
            while not (result := probe(url)).healthy:
                ticker.detail = self._progress(program, result)
                self._check_alive(program, ticker)
                time.sleep(0.5)
            return result

    def _progress(self, program: str, result: Probe) -> str:
        """A word on how far a service is: its own reason where it answers, else the last line of its log."""
        if result.detail.startswith("HTTP"):
            said = re.search(r'"errorMsg": ?"([^"]+)', result.detail)
            return (said[1] if said else result.detail)[:160]
        lines = [line for line in self._last_lines(program, 30) if MESSAGE.search(line)]
        return MESSAGE.sub("", lines[-1])[:100] if lines else ""

    def _last_lines(self, program: str, count: int) -> list[str]:
        """The last non-empty lines that a program has logged since this call started it, [] where there are none."""
        log = self._log(program)
        begin = max(self._log_begins.get(program, 0), size(log) - 20000)
        try:
            with log.open("rb") as stream:
                stream.seek(begin)
                text = stream.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [line.strip() for line in text.splitlines() if line.strip()][-count:]

    def _error_line(self, program: str) -> str:
        """The line of a program's log that most likely says what went wrong."""
        lines = self._last_lines(program, 60)
        marked = [line for line in lines if "error" in line.lower()]
        return (marked or lines or ["no output"])[-1][-300:]

    def _check_alive(self, program: str, ticker: Ticker) -> None:
        info = self._supervisor.info(program)
        log = self._log(program)
        # supervisord would try again; for what this call started, one failure on the way up is enough.
        restarted = program in self._started and self._started[program] != info["pid"]
        if restarted or info["statename"] not in ALIVE:
            raise ServiceError(f"{program} ended while starting (status {info['exitstatus']}): "
                               f"{self._error_line(program)} (log: {shown(log)})")
        if ticker.elapsed > self._settings.ready_timeout:
            raise ServiceError(f"{program} was not ready after {ticker.elapsed:.0f} s (READY_TIMEOUT): "
                               f"{ticker.detail or 'no message'} (log: {shown(log)})")


def check_port(program: str, host: str, port: int, setting: str) -> None:
    """Raise UsageError when something already listens on the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise UsageError(f"port {port} on {host}, which {program} needs, cannot be used ({error.strerror}); "
                             f"stop what holds it, or set {setting} to a free port") from error


def size(log: Path) -> int:
    """Size of a log in bytes, 0 where there is none."""
    return log.stat().st_size if log.is_file() else 0
