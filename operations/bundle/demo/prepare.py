# SPDX-License-Identifier: Apache-2.0
"""What local mode needs before its services start: environments, documents that can be decoded, weights."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bundle.demo import inputs
from bundle.environments import system
from bundle.environments.environment import Environment
from bundle.environments.setup import ENVIRONMENTS, is_ready, set_up
from bundle.local_mode.settings import LocalSettings
from bundle.paths import RUN_DIR
from bundle.progress import last_line, step
from tool_errors import UsageError


@dataclass(frozen=True)
class Prepared:
    """What is known before the start: pages by path, and the weights that the launcher chose.

    Both are empty in docker mode, where the containers find them out.
    """

    pages: dict[str, int] = field(default_factory=dict)
    weights: dict[str, object] = field(default_factory=dict)


@contextmanager
def exclusive() -> Iterator[None]:
    """Hold the lock for making environments and starting services, which two calls must not do at once."""
    RUN_DIR.mkdir(parents=True, exist_ok=True)
    with (RUN_DIR / "lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step("waiting for another call of this script to finish its set-up"):
                fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def prepare_local(
    settings: LocalSettings, documents: list[inputs.Document], start: Callable[[str], None], *, install: bool
) -> Prepared:
    """Make the environments, choose the weights and decode the documents. Raises ToolError.

    The VLM takes longest to start. It loads while the parser's environment is made, if that has to be made. `start`
    starts a program, `install` allows root to install system packages that are missing.
    """
    tools, vlm, parser = environments(settings)
    system.ensure((tools, vlm, parser), install=install)
    for environment in (tools, vlm):
        set_up(environment)
    weights = choose_weights(settings)
    if not is_ready(parser):
        start("vlm")
        set_up(parser)
    return Prepared(inputs.decode(documents), weights)


def environments(settings: LocalSettings) -> list[Environment]:
    """Return the environments that local mode needs: supervisord's, the VLM's and the parser's."""
    return [ENVIRONMENTS[name] for name in settings.environments]


def choose_weights(settings: LocalSettings) -> dict[str, object]:
    """Ask the launcher which weights it would serve; its banner goes to stderr. Raises UsageError with its message."""
    result = subprocess.run(
        [str(environments(settings)[1].python), "-m", "vlm_server", "--print-weights"],
        env=dict(settings.values),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise UsageError(last_line(result.stderr, otherwise="the launcher failed").removeprefix("error: "))
    sys.stderr.write(result.stderr)
    return json.loads(result.stdout)
