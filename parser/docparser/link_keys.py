# SPDX-License-Identifier: Apache-2.0
"""``python -m docparser.link_keys``: rotates the key that signs the addresses of results."""

from __future__ import annotations

import argparse
import sys

from pydantic import ValidationError

from docparser.errors import NotReady, StorageUnavailable
from docparser.jobs.links import STEP_S, LinkKeys
from docparser.jobs.result import timestamp
from docparser.jobs.storage.backend import open_files
from docparser.settings import Settings, wrong


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docparser.link_keys",
        description="The key that signs the addresses of results, in PARSER_DATA_DIR or the bucket of "
        "PARSER_STORAGE_URL. Running services notice a new key at once, over a bucket within seconds.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    rotate = commands.add_parser(
        "rotate", help="make a new key; older addresses keep working until they expire (PARSER_RESULT_URL_HOURS)"
    )
    rotate.add_argument(
        "--revoke",
        action="store_true",
        help="end all older addresses at once, if a stranger knows an old key",
    )
    arguments = parser.parse_args(words)
    try:
        settings = Settings()
    except ValidationError as exc:
        print("\n".join(f"docparser.link_keys: {words}" for words in wrong(exc)), file=sys.stderr)
        return 2
    root = settings.data_dir.expanduser().absolute()
    try:
        keys = LinkKeys(open_files(root, 0, settings.storage_url, settings.spool_dir).small)
        until = keys.rotate(settings.result_url_hours * 3600 + STEP_S)
        if arguments.revoke:
            keys.forget()
    except OSError as exc:
        print(f"docparser.link_keys: PARSER_DATA_DIR: {root} cannot be used ({exc})", file=sys.stderr)
        return 2
    except (StorageUnavailable, NotReady) as exc:
        print(f"docparser.link_keys: {exc}", file=sys.stderr)
        return 2
    older = "have ended" if arguments.revoke else f"work until they expire, {timestamp(until)} at the latest"
    print(f"a new key signs from now on; addresses that are out {older}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
