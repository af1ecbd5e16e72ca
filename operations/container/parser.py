# SPDX-License-Identifier: Apache-2.0
"""Start the parser's container: the parser and the guard under supervisord."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from container import supervisord
from declared_settings import refuse_mistakes
from tool_errors import run

PROGRAMS = ("parser", "guard")
DEFAULTS = {"PARSER_STOP_SECONDS": "20"}


def main() -> None:
    """Raises UsageError for unknown names and for values that every service would refuse."""
    refuse_mistakes(os.environ)
    supervisord.prepare_logs(PROGRAMS, Path(os.environ["RUN_DIR"]))
    supervisord.become(supervisord.environment(PROGRAMS, DEFAULTS, os.environ))


if __name__ == "__main__":
    sys.exit(run(main))
