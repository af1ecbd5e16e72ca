# SPDX-License-Identifier: Apache-2.0
"""What an action is, and what it may excuse."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from chaos.bundle_project import Bundle
from chaos.plan import Length, Step

# Marks of an action. The parser itself is gone or stopped, so nobody answers:
PARSER_AWAY = "parser away"
# Processes that work on pages were ended; a page that met this twice may be given up:
WORKER_KILLED = "worker killed"
# The VLM answered with something that is no answer; a block that met nothing else may say so:
VLM_LIES = "vlm lies"
# Most calls of the VLM lost their connection while some were answered; a block whose every try did may say so:
VLM_HANGS_UP = "vlm hangs up"
# There was no room on the disk, which clients are told (507, or 503 where the request is spooled):
DISK_FULL = "disk full"


@dataclass(frozen=True)
class Action:
    """`begin(bundle, step)` makes the trouble, gives the words for what it did to whom, and ends the trouble on exit.

    It raises NotNow where there is nothing to do it to.
    """

    begin: Callable[[Bundle, Step], AbstractContextManager[str]]
    length: Length = Length()
    marks: frozenset[str] = frozenset()


class NotNow(Exception):
    """The action has no target at this moment: the process it means does not run."""
