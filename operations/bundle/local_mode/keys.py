# SPDX-License-Identifier: Apache-2.0
"""scripts/keys.sh: the parser's own commands for keys, with what local mode gives to the parser."""

from __future__ import annotations

import os
import sys

from bundle.environments.setup import python_of
from bundle.local_mode.settings import LocalSettings
from bundle.paths import ROOT, VALUES
from tool_errors import run

COMMANDS = ("api_keys", "link_keys")
USAGE = (
    f"usage: scripts/keys.sh {'|'.join(COMMANDS)} WORDS...\n\n"
    "Runs python -m docparser.api_keys or docparser.link_keys with local mode's settings, on its data directory.\n"
    "`scripts/keys.sh api_keys --help` shows the words; paths begin in the checkout."
)


def main(words: list[str]) -> int:
    if words[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if not words or words[0] not in COMMANDS:
        print(USAGE, file=sys.stderr)
        return 2

    def become() -> None:
        settings, python = LocalSettings.of(VALUES), python_of("parser")
        # As the parser itself is started: bundle/local_mode/supervisor.py.
        os.chdir(ROOT)
        os.umask(0o077)
        os.execve(python, [str(python), "-m", f"docparser.{words[0]}", *words[1:]], dict(settings.values))

    return run(become)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
