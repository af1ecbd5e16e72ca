# SPDX-License-Identifier: Apache-2.0
"""Become supervisord with the programs of one container."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]


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
    """What config/supervisord.conf and its programs read; a value that `env` holds wins over its default.

    `files` names the program files of config/supervisor/.
    """
    own = {
        "PROGRAMS": " ".join(f"supervisor/{name}.conf" for name in files),
        "AUTOSTART": "true",
        "LOG_MAXBYTES": "0",
        "LOG_DIR": f"{env['RUN_DIR']}/logs",
        "SUPERVISOR_SOCKET": f"{env['RUN_DIR']}/supervisor.sock",
        "OPERATIONS_PYTHON": sys.executable,
    }
    # Compose passes variables that .env leaves out as empty ones.
    return {**defaults, **{name: value for name, value in env.items() if value}, **own}


def become(env: Mapping[str, str]) -> NoReturn:
    """Replace this process by supervisord."""
    program = str(Path(sys.executable).with_name("supervisord"))
    os.execve(program, [program, "-c", str(ROOT / "config/supervisord.conf")], dict(env))
