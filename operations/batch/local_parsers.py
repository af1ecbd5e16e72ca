# SPDX-License-Identifier: Apache-2.0
"""Parsers for --vlm. Each VLM server gets a parser on this machine, because a VLM reads crops or pages of one form.

They run as ``docparser`` in the environment ``parser`` on free loopback ports. Their settings are those of local mode
(the environment, then .env) except VLM_URL, the folder of jobs, and those of OF_THE_SITE: these parsers are for this
run alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import cgroup
import parser_memory
from bundle import readiness
from bundle.environments.setup import python_of
from bundle.local_mode.settings import LocalSettings
from bundle.paths import ROOT, RUN_DIR, VALUES, shown
from free_ports import free_port
from health_probe import probe
from selftest.server import Server
from served_weights.settings import WeightSettings
from served_weights.vlm import named
from tool_errors import ServiceError, UsageError

if TYPE_CHECKING:
    from .progress import Display

MESSAGE_EVERY_S = 15.0
# How settings begin that are for the site's own parser: who may ask it and where, and the queue, the folder, the log
# and the VLM servers that it works with.
OF_THE_SITE = (
    *("PARSER_API_KEY", "PARSER_ALLOWED_", "PARSER_PUBLISHED_ADDRESS", "PUBLIC_URL", "PARSER_AUDIT_LOG"),
    *("PARSER_DATABASE_URL", "PARSER_STORAGE_URL", "PARSER_SPOOL_DIR", "PARSER_CALLBACK_", "VLM_FURTHER_URLS"),
)


def workers(cores: int, memory: int | None, share: int) -> int:
    """PARSER_WORKERS for a parser that gets 1 / `share` of the cores and of the memory (bytes)."""
    return parser_memory.default_workers(max(1, cores // share), memory and memory // share)


async def start(stack: contextlib.AsyncExitStack, vlms: list[str], patience: float, display: Display) -> list[str]:
    """Start the parsers and return their URLs once all are ready; `stack` stops them. `patience` is in seconds.

    Raises UsageError, EnvironmentSetupError, ServiceError.
    """
    if not vlms:
        return []
    python = python_of("parser", "--vlm: ")
    for vlm in vlms:
        if not vlm.startswith(("http://", "https://")):
            raise UsageError(f"--vlm {vlm}: expected a VLM server's API root like http://127.0.0.1:8000/v1")
    started = [await _spawn(stack, python, vlm, share=len(vlms)) for vlm in vlms]
    await asyncio.gather(*(_ready(*one, patience, display) for one in started))
    return [url for _, url, _, _ in started]


async def _spawn(
    stack: contextlib.AsyncExitStack, python: Path, vlm: str, share: int
) -> tuple[str, str, asyncio.subprocess.Process, Path]:
    """Start one parser, which gets 1 / `share` of the cores.

    Returns the VLM's URL, the parser's URL, its process and its log.
    """
    port = free_port()
    log = RUN_DIR / "logs" / f"parse_folder-parser-{port}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    data = stack.enter_context(tempfile.TemporaryDirectory(prefix="parse_folder-", ignore_cleanup_errors=True))
    values = LocalSettings.of(VALUES).values
    kept = {name: value for name, value in values.items() if not name.startswith(OF_THE_SITE)}
    kept |= await asyncio.to_thread(model_at, vlm, kept)
    own = {} if share == 1 else {"PARSER_WORKERS": str(workers(cgroup.cores(), cgroup.memory(), share))}
    env = {
        **own,
        **kept,
        "VLM_URL": vlm,
        "PARSER_BIND": "127.0.0.1",
        "PARSER_PORT": str(port),
        "PARSER_DATA_DIR": data,
        "PARSER_LOG_FORMAT": "text",
    }
    with log.open("wb") as sink:
        # A session of its own: Ctrl-C comes to us, and we end it.
        process = await asyncio.create_subprocess_exec(
            str(python),
            "-m",
            "docparser",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=env,
            cwd=ROOT,
            start_new_session=True,
        )
    stack.push_async_callback(stop, process)
    return vlm, f"http://127.0.0.1:{port}", process, log


async def _ready(
    vlm: str, url: str, process: asyncio.subprocess.Process, log: Path, patience: float, display: Display
) -> None:
    display.say(f"starting a parser for {vlm} (log: {shown(log)})")
    began = said = time.monotonic()
    while not (answer := await asyncio.to_thread(probe, f"{url}/health/ready")).healthy:
        now = time.monotonic()
        if process.returncode is not None:
            raise ServiceError(f"the parser for {vlm} ended with status {process.returncode} (log: {shown(log)})")
        if now - began > patience:
            raise ServiceError(
                f"the parser for {vlm} is not ready after {patience:.0f} s (--patience): "
                f"{readiness.said(answer.detail)[:300]}"
            )
        if now - said > MESSAGE_EVERY_S:
            said = now
            display.say(f"still waiting for {vlm}: {readiness.said(answer.detail)[:300]}")
        await asyncio.sleep(0.5)


def model_at(vlm: str, values: Mapping[str, str]) -> dict[str, str]:
    """VLM_MODEL for the parser of a VLM server, if the server says that it serves another model of models.yaml than
    `values` lead to. The model decides whether there is a layout model. Raises UsageError for a models.yaml that cannot
    be used.

    If the server is away or needs another key, the parser reports that itself.
    """
    settings = WeightSettings.from_environment(values)
    try:
        served = settings.catalog.by_served_name(Server(vlm, key=values.get("PARSER_VLM_API_KEY")).name)
    except ServiceError:
        served = None
    if served is None or values.get("VLM_MODEL_NAME") or served.served_name == named(settings)[0].served_name:
        return {}
    return {"VLM_MODEL": served.name}


async def stop(process: asyncio.subprocess.Process) -> None:
    """End a parser with its workers."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(30):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
