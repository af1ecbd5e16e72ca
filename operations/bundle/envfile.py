# SPDX-License-Identifier: Apache-2.0
"""The file .env, which compose reads too: lines KEY=VALUE. Variables of the environment win over it."""

from __future__ import annotations

import os
import re
from pathlib import Path

LINE = re.compile(r"^(?:export\s+)?(?P<key>[A-Za-z_]\w*)=(?P<value>.*)$")
QUOTED = re.compile(r"""^(["'])(?P<text>.*)\1\s*(?:#.*)?$""")


def parse(text: str) -> tuple[dict[str, str], list[int]]:
    """Return the values by key, and the numbers of the lines that are neither KEY=VALUE nor a comment nor blank."""
    values: dict[str, str] = {}
    malformed: list[int] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = LINE.match(line)
        if not match:
            malformed.append(number)
            continue
        value = match["value"].strip()
        quoted = QUOTED.match(value)
        values[match["key"]] = quoted["text"] if quoted else re.sub(r"(^|\s+)#.*$", "", value)
    return values, malformed


def merged(path: Path) -> dict[str, str]:
    """Return the file's values, overridden by the environment's; an empty variable of the environment counts as set."""
    values = parse(path.read_text(encoding="utf-8"))[0] if path.is_file() else {}
    return {**values, **os.environ}
