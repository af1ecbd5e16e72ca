# SPDX-License-Identifier: Apache-2.0
"""Commands of a guide, as a reader pastes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

# A heading, or a block with the comment before it, which says who runs it or why nobody does.
PARTS = re.compile(
    r"^## (?P<title>[^\n]+)$|(?:^<!-- (?P<mark>(?:not )?run by .+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


# The operator's guide, in the order in which its commands can be run; each page is there in Chinese too.
GUIDE = ("install", "run", "check", "secure", "weights", "layout-server", "several-nodes", "settings", "mend", "tried")
LANGUAGES = {"English": ROOT / "docs", "Chinese": ROOT / "docs/zh-CN"}


@dataclass(frozen=True)
class Block:
    """A block of a guide: its section, its language, its text, and its mark (empty: tests/images/cpu/test_guide.py)."""

    section: str
    language: str
    text: str
    mark: str


def all_blocks(path: Path) -> list[Block]:
    """All blocks of a guide, in order."""
    found, section = [], ""
    for match in PARTS.finditer(path.read_text(encoding="utf-8")):
        if match["title"]:
            section = match["title"]
        else:
            found.append(Block(section, match["language"], match["text"], match["mark"] or ""))
    return found


def guide(language: str = "English") -> list[Path]:
    """The pages of the operator's guide in this language."""
    return [LANGUAGES[language] / f"{name}.md" for name in GUIDE]


def blocks(path: Path, section: str) -> list[str]:
    """The shell blocks of the section with this title."""
    found = [block.text for block in all_blocks(path) if block.section == section and block.language == "sh"]
    assert found, f"{path} has no section {section!r} with commands"
    return found
