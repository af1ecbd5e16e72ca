# SPDX-License-Identifier: Apache-2.0
"""Become supervisord with the programs of one container; `main` runs it, and ends with the guard's status."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config/supervisord.conf"


def prepare_logs(programs: Sequence[str], run_dir: Path) -> None:
    """Make the folder of logs, in which each program's log is a link to the container's own output.

    supervisord's own log goes nowhere: it writes the same lines to its output.
    """
    logs = run_dir / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for name, target in {"supervisord": "/dev/null", **dict.fromkeys(programs, "/dev/stdout")}.items():
        link = logs / f"{name}.log"
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def environment(files: Sequence[str], defaults: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """The variables of config/supervisord.conf and its programs. A value in `env` wins over the default.

    `files` names the program files of config/supervisor/.
    """
    own = {
        "PROGRAMS": " ".join(f"supervisor/{name}.conf" for name in files),
        "AUTOSTART": "true",
        "LOG_MAXBYTES": "0",
        # No end counts as "too early", so that its status counts. The guard counts repeated ends.
        "START_SECONDS": "0",
        "LOG_DIR": f"{env['RUN_DIR']}/logs",
        "SUPERVISOR_SOCKET": f"{env['RUN_DIR']}/supervisor.sock",
        "OPERATIONS_PYTHON": sys.executable,
    }
    # Compose passes variables that are not in .env as empty ones.
    return {**defaults, **{name: value for name, value in env.items() if value}, **own}


def become(env: Mapping[str, str]) -> NoReturn:
    """Replace this process by `main`."""
    for of_the_last_time in (exit_status(env), stays_away(env, "layout"), balancer_file(env)):
        of_the_last_time.unlink(missing_ok=True)
    os.execve(sys.executable, [sys.executable, "-m", "container.supervisord"], dict(env))


def exit_status(env: Mapping[str, str]) -> Path:
    """The file with the container's exit status, which the guard writes before it ends supervisord."""
    return Path(env["RUN_DIR"]) / "exit-status"


def stays_away(env: Mapping[str, str], name: str) -> Path:
    """The file that the guard leaves for a program without which the container goes on, once it has given up."""
    return Path(env["RUN_DIR"]) / f"{name}.given-up"


def balancer_file(env: Mapping[str, str]) -> Path:
    """HAProxy's configuration. The balancer writes it when the first replica answers, and the guard looks whether it is
    there."""
    return Path(env["RUN_DIR"]) / "haproxy.cfg"


def main() -> int:
    """Run supervisord to its end. Returns the guard's status, 0 if no program has given up."""
    from supervisor.supervisord import main as supervise

    supervise(["-c", str(CONFIG)])
    try:
        return int(exit_status(os.environ).read_text())
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
