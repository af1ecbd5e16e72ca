# SPDX-License-Identifier: Apache-2.0
"""Parsers for VLM servers: a VLM reads crops and knows no layout, so each URL gets a parser on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bundle.environments import ENVIRONMENTS
from bundle.errors import EnvironmentSetupError, ServiceError, UsageError
from bundle.paths import ROOT, RUN_DIR, shown
from health_probe import probe

if TYPE_CHECKING:
    from .progress import Display

START_LIMIT_S = 900


class LocalParsers:
    """Starts ``docparser`` of the environment ``parser`` with VLM_URL set; settings as in .env.example otherwise."""

    @classmethod
    async def start(cls, stack: contextlib.AsyncExitStack, vlms: list[str], display: Display) -> list[str]:
        """The parsers' URLs once all are ready; `stack` stops them. Raises UsageError, EnvironmentSetupError, ServiceError."""
        python = ENVIRONMENTS["parser"].python
        if vlms and not python.is_file():
            raise EnvironmentSetupError(f"--vlm: the environment parser is not there ({shown(python)}); "
                                        "make it with scripts/setup_env.sh parser")
        started = [await cls._spawn(stack, python, vlm) for vlm in vlms]
        for url, process, log in started:
            display.say(f"waiting for the parser at {url} ...")
            await cls._ready(url, process, log)
        return [url for url, _, _ in started]

    @staticmethod
    async def _spawn(stack: contextlib.AsyncExitStack, python: Path, vlm: str) -> tuple[str, asyncio.subprocess.Process, Path]:
        if not vlm.startswith(("http://", "https://")):
            raise UsageError(f"--vlm {vlm}: expected a VLM server's API root like http://127.0.0.1:8000/v1")
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            port = trial.getsockname()[1]
        log = RUN_DIR / "logs" / f"parse_folder-parser-{port}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        env = {"HARDWARE": "cpu", "MODELS_DIR": str(ROOT / "models"), **os.environ, "VLM_URL": vlm,
               "PARSER_BIND": "127.0.0.1", "PARSER_PORT": str(port)}  # fmt: skip
        env.pop("PYTHONPATH", None)
        with log.open("wb") as sink:
            # A session of its own: Ctrl-C comes to us, and we end it.
            process = await asyncio.create_subprocess_exec(
                str(python), "-m", "docparser", stdin=asyncio.subprocess.DEVNULL, stdout=sink, stderr=sink, env=env,
                start_new_session=True,
            )  # fmt: skip
        stack.push_async_callback(stop, process)
        return f"http://127.0.0.1:{port}", process, log

    @staticmethod
    async def _ready(url: str, process: asyncio.subprocess.Process, log: Path) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        answer = await asyncio.to_thread(probe, f"{url}/health/ready")
        while not answer.healthy:
            if process.returncode is not None:
                raise ServiceError(f"the parser for --vlm ended with status {process.returncode} (log: {shown(log)})")
            if time.monotonic() > deadline:
                raise ServiceError(f"the parser for --vlm is not ready after {START_LIMIT_S} s: {answer.detail[:300]}")
            await asyncio.sleep(1)
            answer = await asyncio.to_thread(probe, f"{url}/health/ready")


async def stop(process: asyncio.subprocess.Process) -> None:
    """End a parser with its workers."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), 30)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
