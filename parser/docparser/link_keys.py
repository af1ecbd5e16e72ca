# SPDX-License-Identifier: Apache-2.0
"""``python -m docparser.link_keys``: rotates the key that signs the addresses of results."""

from __future__ import annotations

import argparse
import sys

from docparser.jobs.link_keys import LinkKeys
from docparser.jobs.links import STEP_S
from docparser.jobs.result import timestamp
from docparser.settings import Settings


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docparser.link_keys",
        description="The key in PARSER_DATA_DIR that signs the addresses of results. Running services notice a new key "
        "at once.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    rotate = commands.add_parser(
        "rotate", help="make a new key; addresses that are out keep working until they expire (PARSER_RESULT_URL_HOURS)"
    )
    rotate.add_argument(
        "--revoke",
        action="store_true",
        help="end all addresses that are out at once: an old key is known to a stranger",
    )
    arguments = parser.parse_args()
    settings = Settings()
    root = settings.data_dir.expanduser().absolute()
    keys = LinkKeys(root)
    try:
        until = keys.rotate(settings.result_url_hours * 3600 + STEP_S)
        if arguments.revoke:
            keys.forget()
    except OSError as exc:
        print(f"docparser.link_keys: PARSER_DATA_DIR: {root} cannot be used ({exc})", file=sys.stderr)
        return 2
    older = "have ended" if arguments.revoke else f"work until they expire, {timestamp(until)} at the latest"
    print(f"a new key signs from now on; addresses that are out {older}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
