# SPDX-License-Identifier: Apache-2.0
"""The errors that end a command with one line on stderr, the exit status of each kind, and where settings are set.
Standard library only.

Every command of the project uses these kinds: scripts, launcher, self-test, and the tools on transformers and vLLM.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Mapping

FAILED = 1  # the command did its work, and its verdict is no
INTERRUPTED = 130
# What Ctrl-C prints for a command that continues with what an earlier call has finished.
RESUMABLE = "interrupted; run the same command again to go on"
# Whoever starts a service says there where its settings are set: ".env beside compose.yaml", a ConfigMap.
SETTINGS_PLACE = "SETTINGS_PLACE"
# What an operator does about a file that the system refuses.
ROOM, OWNER = "make room on it", "run this as its owner, or give it to this user"
REMEDIES = {errno.ENOSPC: ROOM, errno.EDQUOT: ROOM, errno.EACCES: OWNER, errno.EPERM: OWNER}
SETTING = re.compile(r"\b(?:PARSER|VLM|LAYOUT|CORPUS)_[A-Z][A-Z0-9_]*\b")


class ToolError(Exception):
    """Base class. The message is one line for the user and says what to do; ``exit_status`` is the command's."""

    exit_status = 1


class UsageError(ToolError):
    """An argument, a setting or an input file cannot be used."""

    exit_status = 2


class WeightsError(UsageError):
    """The weights are missing, incomplete, or not the ones that their manifest lists."""


class EnvironmentSetupError(ToolError):
    """An environment, a package or a library is missing, could not be installed, or does not fit another."""

    exit_status = 3


class ServiceError(ToolError):
    """A service cannot be reached, did not start, or ended."""

    exit_status = 4


class ParseError(ToolError):
    """The services run, yet a page could not be parsed."""

    exit_status = FAILED


class DeviceError(ToolError):
    """A device is missing, too small, or failed."""

    exit_status = 4


def with_place(message: str, env: Mapping[str, str] = os.environ) -> str:
    """``message``, and at its end where the settings that it names are set, if it names any and the place is known."""
    names, place = dict.fromkeys(SETTING.findall(message)), env.get(SETTINGS_PLACE)
    if not names or not place:
        return message
    verb = "is" if len(names) == 1 else "are"
    return f"{message.rstrip().removesuffix('.')}. {' and '.join(names)} {verb} set in {place}."


def of_system(error: OSError) -> str:
    """The file, if there is one, the system's words, and what to do about it."""
    named = isinstance(error.filename, (str, bytes, os.PathLike))
    said = f"{os.fsdecode(error.filename)}: {error.strerror}" if named else error.strerror or str(error)
    remedy = REMEDIES.get(error.errno or 0)
    return f"{said}; {remedy}" if remedy else said


def run(command: Callable[[], int | None], interrupted: str = "interrupted") -> int:
    """Call a command and return its exit status; None counts as 0.

    A ToolError becomes one line on stderr and its own status, as do a file that the system refuses and a reader of
    stdout that went away, with status 1. Ctrl-C prints ``interrupted`` and becomes 130.
    """
    try:
        return command() or 0
    except ToolError as error:
        print(f"error: {with_place(str(error))}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        # The interpreter must not try to flush it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print("error: the reader of the output went away before everything was written", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"error: {of_system(error)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return INTERRUPTED
