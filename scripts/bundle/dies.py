# SPDX-License-Identifier: Apache-2.0
"""Compose fragments that name the device files of chosen dies: config/compose/dies/<NPU_IDS>.yaml."""

from __future__ import annotations

import re
import sys

from .errors import BundleError, UsageError, exit_status
from .paths import CONFIG, shown
from .progress import say

FOLDER = CONFIG / "compose" / "dies"
DIES = 16
SHARED = ("davinci_manager", "devmm_svm", "hisi_hdc")


def parse_ids(text: str) -> list[int]:
    """`0,2,5`, `4-11`, or both mixed, as ascending numbers; raises UsageError."""
    wrong = UsageError(f"NPU_IDS is {text!r}; expected ascending numbers from 0 to {DIES - 1}, like 0,2,5 or 4-11")
    ids: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match:
            raise wrong
        ids += range(int(match[1]), int(match[2] or match[1]) + 1)
    if not ids or ids != sorted(set(ids)) or ids[-1] >= DIES:
        raise wrong
    return ids


def fragment(text: str) -> str:
    """The fragment's text. It extends the stack, because a compose service can extend only one other."""
    devices = "".join(f"      - /dev/{name}\n" for name in (*(f"davinci{number}" for number in parse_ids(text)), *SHARED))
    return (f"# The device files of NPU_IDS={text}; written by scripts/select_npus.sh.\nservices:\n  vlm:\n"
            '    extends: {file: "../../stacks/${STACK:-0.11.1}.yaml", service: vlm-ascend}\n'
            f"    devices:\n{devices}")


def main(words: list[str]) -> int:
    if len(words) != 1 or words[0] in ("-h", "--help"):
        print("usage: scripts/select_npus.sh IDS, like 0,2,5 or 4-11", file=sys.stderr)
        return 2
    try:
        path = FOLDER / f"{words[0]}.yaml"
        path.write_text(fragment(words[0]))
        say(f"wrote {shown(path)}; set NPU_IDS={words[0]} in .env")
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
