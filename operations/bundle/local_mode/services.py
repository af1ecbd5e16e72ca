# SPDX-License-Identifier: Apache-2.0
"""The two services in local mode: start what is not running, wait until it is ready, stop what this call started."""

from __future__ import annotations

import re
from pathlib import Path

from bundle import files, ports, readiness
from bundle.local_mode.settings import LocalSettings
from bundle.local_mode.supervisor import Supervisor
from bundle.paths import RUN_DIR, shown
from bundle.progress import Ticker, say, step
from health_probe import Probe, probe
from tool_errors import ServiceError, UsageError

STATE_FILE = RUN_DIR / "services.json"
ALIVE = {"STARTING", "RUNNING", "BACKOFF"}
# What vLLM and the parser put before a message: level, date and time, source. Other lines say nothing to a user.
MESSAGE_HEAD = re.compile(r"^.*?(?:INFO|WARNING) .*?(?:\]|:) ")
# Bytes at the end of a log file that are looked at.
TAIL_BYTES = 200_000


class Services:
    """VLM server and parser under one supervisord.

    What a call starts is noted before it is started, so that `undo` can stop exactly that at any moment.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._supervisor = Supervisor(settings)
        self._started_supervisor = False
        self._started: list[str] = []
        self._pids: dict[str, int] = {}  # of each program, when this call first saw it
        self._logs = {program: ServiceLog(RUN_DIR / "logs" / f"{program}.log") for program in settings.programs}

    def running(self) -> bool:
        """Tell whether a supervisord of this checkout runs."""
        return self._supervisor.pid() is not None

    def check(self) -> None:
        """Check that each service has a port of its own, that running services have the wanted settings, and that the
        others find their ports free.

        Changes nothing. Raises UsageError.
        """
        settings_of_ports: dict[int, str] = {}
        for setting, _, port in self._settings.listens.values():
            if (other := settings_of_ports.setdefault(port, setting)) != setting:
                raise UsageError(f"{other} and {setting} are both {port}; expected different ports")
        running = self._supervisor.pid() is not None
        recorded, own = files.read_json(STATE_FILE) if running else None, self._settings.identity
        if recorded is not None and recorded != own:
            names = sorted(name for name in {*recorded, *own} if recorded.get(name) != own.get(name))
            raise UsageError(
                f"the services run with other values of {', '.join(names)}; to use those of now, stop them first: "
                "scripts/run_demo.sh --down"
            )
        for program, (setting, host, port) in self._settings.listens.items():
            if not (running and self._supervisor.state(program) in ALIVE):
                check_port(program, host, port, setting)

    def start(self, *programs: str) -> None:
        """Start supervisord and those of the programs (all by default) that do not run; does not wait until they are
        ready."""
        if self._supervisor.pid() is None:
            self._started_supervisor = True
            self._supervisor.start()
            files.write_json(STATE_FILE, self._settings.identity)
        for program in programs or self._settings.programs:
            if self._supervisor.state(program) not in ALIVE:
                log = self._logs[program]
                say(f"starting {program}, log: {shown(log.path)}")
                self._started.append(program)
                log.begin_here()
                self._supervisor.start_program(program)
            self._pids[program] = self._supervisor.info(program)["pid"]

    def wait_ready(self) -> dict[str, object]:
        """Wait until the VLM answers, then until the parser is ready; returns what it says of the weights in use.

        Raises ServiceError when a service ends, says that it cannot work, or takes longer than READY_TIMEOUT.
        """
        self._wait("vlm", "the VLM server to load its model", f"{self._settings.address('vlm')}/health")
        if "layout" in self._settings.programs:
            url = f"{self._settings.address('layout')}/health"
            self._wait("layout", "the layout server to load its model", url)
        ready = self._wait("parser", "the parser to be ready", self._parser_ready)
        return readiness.weights_in_use(ready)

    def undo(self) -> None:
        """Stop what this call started."""
        if self._started_supervisor:
            self._supervisor.shut_down()
            STATE_FILE.unlink(missing_ok=True)
            return
        for program in reversed(self._started):
            self._supervisor.stop_program(program)

    def down(self) -> bool:
        """Stop the services, whoever started them; returns whether any were running."""
        running = self._supervisor.pid() is not None
        if running:
            with step("stopping the services"):
                self._supervisor.shut_down()
        STATE_FILE.unlink(missing_ok=True)
        return running

    @property
    def _parser_ready(self) -> str:
        return f"{self._settings.address('parser')}/health/ready"

    def _wait(self, program: str, what: str, url: str) -> Probe:
        def look(ticker: Ticker, result: Probe) -> None:
            ticker.detail = self._progress(program, result)
            # All of them: while one loads for half a minute, another may have given up.
            for name in self._settings.programs:
                self._check_alive(name)
            self._check_parser(probe(self._parser_ready) if url != self._parser_ready else result)
            if ticker.elapsed > self._settings.ready_timeout:
                raise ServiceError(
                    f"{program} was not ready after {ticker.elapsed:.0f} s (READY_TIMEOUT): "
                    f"{ticker.detail or 'no message'} (log: {shown(self._logs[program].path)})"
                )

        return readiness.wait(url, what, look)

    def _progress(self, program: str, result: Probe) -> str:
        """Say how far a service is: its own reason if it answers, else the last message in its log."""
        if result.detail.startswith("HTTP"):
            return readiness.said(result.detail)[:160]
        return self._logs[program].last_message()

    def _check_alive(self, program: str) -> None:
        """Raise ServiceError if a program has ended. supervisord may try again; the first end is enough."""
        info, log = self._supervisor.info(program), self._logs[program]
        if info["statename"] not in ("STARTING", "RUNNING") or info["pid"] != self._pids[program]:
            raise ServiceError(
                f"{program} ended while starting (status {info['exitstatus']}): "
                f"{readiness.likely_cause(log.last_lines(readiness.LOG_LINES))} (log: {shown(log.path)})"
            )

    def _check_parser(self, result: Probe) -> None:
        """Raise ServiceError if the parser says that it cannot start."""
        if readiness.is_broken(result):
            raise ServiceError(
                f"the parser cannot start: {readiness.said(result.detail)} (log: {shown(self._logs['parser'].path)})"
            )


class ServiceLog:
    """What a service has said since this call started it: the log file at `path`, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = 0

    def begin_here(self) -> None:
        """Leave out what is in the file now: an earlier start wrote it."""
        self._begin = self._size()

    def last_lines(self, count: int) -> list[str]:
        """Return at most `count` non-empty lines from the end; [] if there are none."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(max(self._begin, self._size() - TAIL_BYTES))
                text = stream.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [line.strip() for line in text.splitlines() if line.strip()][-count:]

    def last_message(self) -> str:
        """Return the last message without its head, at most 100 characters; an empty text if there is none."""
        messages = [line for line in self.last_lines(30) if MESSAGE_HEAD.search(line)]
        return MESSAGE_HEAD.sub("", messages[-1])[:100] if messages else ""

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0


def check_port(program: str, host: str, port: int, setting: str) -> None:
    """Raise UsageError if the program cannot listen on its port."""
    if error := ports.trouble(host, port):
        raise UsageError(
            f"port {port} on {host}, which {program} needs, cannot be used ({error.strerror}); "
            f"stop what holds it, or set {setting} to a free port"
        )
