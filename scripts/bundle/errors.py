# SPDX-License-Identifier: Apache-2.0
"""Domain errors of the scripts, and the exit status that each one becomes."""

from __future__ import annotations

import sys
from collections.abc import Callable


class BundleError(Exception):
    """Base of what the user is told in one line; the message says what to do."""


class UsageError(BundleError):
    """An argument, a setting or an input file that cannot be worked with."""


class EnvironmentSetupError(BundleError):
    """An environment could not be made."""


class ServiceError(BundleError):
    """A service did not start, or went away."""


class ParseError(BundleError):
    """The services run, yet a page could not be parsed."""


EXIT_STATUS: dict[type[BundleError], int] = {
    UsageError: 2,
    EnvironmentSetupError: 3,
    ServiceError: 4,
    ParseError: 1,
}


def exit_status(error: BundleError) -> int:
    """Exit status for an error: the entry of the nearest class in `EXIT_STATUS`, 1 where none fits."""
    return next((EXIT_STATUS[kind] for kind in type(error).__mro__ if kind in EXIT_STATUS), 1)


def outcome(work: Callable[[], object]) -> int:
    """Do a command's work and return its exit status: 0, that of a BundleError, which becomes one line on stderr, or 130
    after Ctrl-C, for work that goes on where it was when it is started again."""
    try:
        work()
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    return 0
