# SPDX-License-Identifier: Apache-2.0
"""Calls of run_demo.sh in a folder and on ports of their own, and a list of the processes that they leave."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

RUN_DEMO = str(ROOT / "scripts/run_demo.sh")


def one_error_line(stderr: str) -> str:
    """The single line that begins with `error:`; fails where there is none, or a traceback."""
    lines = [line for line in stderr.splitlines() if line.startswith("error:")]
    assert len(lines) == 1 and "Traceback" not in stderr, stderr
    return lines[0]


@dataclass
class LocalMode:
    """Local mode with a RUN_DIR and ports of its own; `folder` is where the calls are made."""

    folder: Path
    env: dict[str, str]

    @property
    def parser_url(self) -> str:
        return f"http://127.0.0.1:{self.env['PARSER_PORT']}"

    @property
    def vlm_url(self) -> str:
        return f"http://127.0.0.1:{self.env['VLM_PORT']}"

    def call(
        self, *words: str, timeout: float = 120, env: dict[str, str] | None = None, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        """Run scripts/run_demo.sh to its end with the variables `env` and `extra`.

        Its stderr and time are shown where pytest shows output.
        """
        began = time.monotonic()
        result = subprocess.run(
            [RUN_DEMO, "--mode", "local", *words],
            env={**self.env, **(env or {}), **extra},
            cwd=self.folder,
            text=True,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        sys.stderr.write(result.stderr)
        print(f"run_demo.sh {' '.join(words)}: status {result.returncode}, {time.monotonic() - began:.1f} s")
        return result

    def start(self, *words: str, **extra: str) -> subprocess.Popen[str]:
        """Start scripts/run_demo.sh and do not wait for it."""
        return subprocess.Popen(
            [RUN_DEMO, "--mode", "local", *words],
            env={**self.env, **extra},
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def processes(self) -> list[str]:
        """Command lines of the living processes that were started with this RUN_DIR."""
        mark = f"RUN_DIR={self.env['RUN_DIR']}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return [line for line in found if line]
