# SPDX-License-Identifier: Apache-2.0
"""A checkout in a folder whose path has blanks, quotes, a percent sign and Chinese letters: supervisord finds its files
and programs there. tests/rehearsal runs the whole first command in such a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.local_mode.settings import LocalSettings, socket_path
from tests.support.paths import ROOT
from tests.support.wait import wait_for

pytestmark = pytest.mark.server


@pytest.mark.parametrize("name", ["\"quoted\" 'it' 文档 ä", "100%, %(here)s ;x #y"])
def test_supervisord_starts_the_programs(tmp_path: Path, name: str):
    """The programs are scripts that say that they were started, and with which words."""
    checkout = tmp_path / name
    shutil.copytree(ROOT / "config", checkout / "config")
    (checkout / "run/logs").mkdir(parents=True)
    for program in ("tools", "vlm", "parser"):
        python = checkout / "environments" / program / "bin/python"
        python.parent.mkdir(parents=True)
        python.write_text('#!/bin/sh\necho "$*" >"$0.said"\nexec sleep 60\n')
        python.chmod(0o755)
    own = {
        "RUN_DIR": str(checkout / "run"),
        "LOG_DIR": str(checkout / "run/logs").replace("%", "%%"),
        "ENVS_DIR": str(checkout / "environments"),
        "OPERATIONS_PYTHON": str(checkout / "environments/tools/bin/python"),
        "SUPERVISOR_SOCKET": str(socket_path(checkout / "run")),
        "AUTOSTART": "true",
    }
    env = {**LocalSettings.of(os.environ).values, **own}
    command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(checkout / "config/supervisord.conf")]
    with (
        (checkout / "console").open("wb") as sink,
        subprocess.Popen(command, env=env, stdout=sink, stderr=sink) as daemon,
    ):
        try:
            said = [checkout / "environments" / one / "bin/python.said" for one in ("tools", "parser")]
            wait_for(lambda: daemon.poll() is not None or all(path.is_file() and path.read_text() for path in said))
            assert daemon.poll() is None, (checkout / "console").read_text()
            assert [path.read_text() for path in said] == ["-m container.replica 0\n", "-m docparser\n"]
            assert (checkout / "run/logs/parser.log").is_file()
        finally:
            daemon.terminate()
