# SPDX-License-Identifier: Apache-2.0
"""Commands of a guide, as a reader pastes them."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(path: Path, section: str) -> list[str]:
    """The shell blocks of the section with this title."""
    _, found, rest = path.read_text().partition(f"\n## {section}\n")
    assert found, f"{path} has no section {section!r}"
    return re.findall(r"^```sh\n(.*?)^```$", rest.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
