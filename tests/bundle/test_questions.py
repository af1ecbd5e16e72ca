# SPDX-License-Identifier: Apache-2.0
"""Questions that readers had are answered two clicks from README: a page, and a section of it or of another one.

The links are walked as a reader clicks them, and the section that they end at says the answer. Where no section says
it, the line with the question does.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

LINK = re.compile(r"\[[^]]*\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
# What a reader looks for in a row, and what the section must say.
ANSWERED = {
    "languages": r"109 languages",
    "password": r"remove a PDF's password",
    "HEIC": r"save HEIC photos as JPEG",
    "types": r"openapi-python-client generate",
    "500 documents": r"many_documents\.py",
    # half answered, or by a wrong road
    "limit of an upload": r"PARSER_MAX_BODY_MIB|client_max_body_size",
    "sideways": r"says `sideways`|`sideways`",
    "handwriting": r"reads both, according to its authors",
    "TIFF of several pages": r"each full picture of a TIFF",
    "faster on a CPU": r"(?:VLM_PRECISION=int8|PARSER_LINE_PIXELS=24).*scripts/eval_accuracy\.py",
    "Windows": r"Windows \(WSL 2\) and macOS",
}
# Answered by the line itself.
IN_THE_LINE = {
    "CSV": r"CSV.*xlsx",
    "two models": r"two installations.*COMPOSE_PROJECT_NAME",
    "proxy's path": r"PUBLIC_URL.*whole address with the path",
    "telemetry": r"no telemetry",
    "Who else": r"other keys get 404",
    "list and delete": r"purge=true",
    "Which browsers": r"Chrome or Edge from 109.*Firefox from 115",
}


def slug(title: str) -> str:
    """The name that GitHub gives to a heading."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def section(path: Path, anchor: str) -> str:
    """A section's text on one line, its subsections included."""
    text = re.sub(r"^```.*?^```", lambda block: block[0].replace("#", " "), path.read_text(), flags=re.M | re.S)
    for heading in re.finditer(r"^(#+) (.+)$", text, re.MULTILINE):
        if slug(heading[2]) == anchor:
            rest = text[heading.end() :]
            end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
            return " ".join(rest[: end.start() if end else None].split())
    raise AssertionError(f"{path} has no heading {anchor!r}")


def clicks(path: Path, words: str = "") -> set[tuple[Path, str]]:
    """The pages, with their sections, that links lead to; with ``words``, links of lines that have them."""
    lines = [line for line in path.read_text().splitlines() if words.casefold() in line.casefold()]
    found = {
        (path.parent / target if target else path, anchor) for line in lines for target, anchor in LINK.findall(line)
    }
    return {(target.resolve(), anchor) for target, anchor in found if target.suffix == ".md" and target.is_file()}


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
@pytest.mark.parametrize("words", ANSWERED)
def test_two_clicks_lead_to_the_answer(words: str, readme: str):
    first = {page for page, _ in clicks(ROOT / readme)}
    second = {click for page in first for click in clicks(page, words) if click[1]}
    assert any(re.search(ANSWERED[words], section(*click)) for click in second), (
        f"no link beside {words!r} on a page that {readme} names leads to a section that says {ANSWERED[words]!r}"
    )


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
@pytest.mark.parametrize("words", IN_THE_LINE)
def test_one_click_leads_to_a_line_that_answers(words: str, readme: str):
    lines = [line for page, _ in clicks(ROOT / readme) for line in page.read_text().splitlines() if words in line]
    assert any(re.search(IN_THE_LINE[words], line) for line in lines)


def test_each_row_leads_to_sections_that_are_there():
    rows = [line for line in (ROOT / "docs/questions.md").read_text().splitlines() if "](" in line]
    assert len(rows) == len(ANSWERED) + len(IN_THE_LINE)
    for row in rows:
        for target, anchor in LINK.findall(row):
            assert section(ROOT / "docs" / target, anchor)
