# SPDX-License-Identifier: Apache-2.0
"""The two services in local mode: start what is not running, wait until it is ready, stop what this call started."""

from __future__ import annotations

import json
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
                self._supervisor.start_program(program)
                self._started[program] = self._supervisor.info(program)["pid"]

    def wait_ready(self) -> dict[str, object]:
        """Wait until the VLM answers, then until the parser is ready; returns what its readiness says.

        Raises ServiceError when a service ends or takes longer than READY_TIMEOUT.
        """
        self._wait("vlm", "the VLM server to load its model", self._settings.vlm_health)
        ready = self._wait("parser", "the parser to be ready", f"{self._settings.parser_url}/health/ready")
        try:
            return json.loads(ready.detail)
        except ValueError:
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
            return result.detail[:160].replace("\n", " ")
        lines = last_lines(self._log(program), 1)
        return lines[0][-120:] if lines else result.detail

    def _check_alive(self, program: str, ticker: Ticker) -> None:
        info = self._supervisor.info(program)
        log = self._log(program)
        # supervisord would try again; for what this call started, one failure on the way up is enough.
        restarted = program in self._started and self._started[program] != info["pid"]
        if restarted or info["statename"] not in ALIVE:
            raise ServiceError(f"{program} ended while starting (status {info['exitstatus']}): "
                               f"{error_line(log)} (log: {shown(log)})")
        if ticker.elapsed > self._settings.ready_timeout:
            raise ServiceError(f"{program} was not ready after {ticker.elapsed:.0f} s (READY_TIMEOUT): "
                               f"{ticker.detail} (log: {shown(log)})")


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


def last_lines(log: Path, count: int) -> list[str]:
    """The last non-empty lines of a log, [] where there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - 20000))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()][-count:]


def error_line(log: Path) -> str:
    """The line of a log that most likely says what went wrong."""
    lines = last_lines(log, 60)
    marked = [line for line in lines if "error" in line.lower()]
    return (marked or lines or ["no output"])[-1][-300:]
