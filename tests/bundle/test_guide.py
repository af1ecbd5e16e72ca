# SPDX-License-Identifier: Apache-2.0
"""Who runs the blocks of the guides: tests/images/cpu/test_guide.py runs those without a mark, other tests those that
name them, and this is the list of those that nobody runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.docs import GUIDE, LANGUAGES, Block, all_blocks, guide
from tests.support.paths import ROOT

README = ROOT / "README.md"
GUIDES = (README, *guide())
TESTS = re.compile(r"(?<![\w/])tests/[\w/.-]*[\w]")
# A file or folder that a command writes here.
WRITTEN = re.compile(r"(?<=\s)(?:>>?|-o|--out|--output)\s+([\w.-]+)(?=[/\s])")
# First line of each block that no test runs, and what it needs.
NOT_RUN = {
    "scripts/eval_accuracy.py --candidate vllm:http://127.0.0.1:8000 --model_path models/PaddleOCR-VL-1.6 "
    "--test_pages pages/*.png": "published weights",
    "scripts/eval_accuracy.py --line_pixels 24 --candidate vllm:http://127.0.0.1:8000 "
    "--model_path models/PaddleOCR-VL-1.6 --test_pages pages/*.png": "published weights",
    "scripts/test.sh unit": "it runs the tests",
    "docker compose run --rm --no-deps --entrypoint rm vlm /var/lib/paddleocr-vl/NAME-FROM-THE-MESSAGE": "a message",
    "git clone --branch v0.23.0 https://github.com/vllm-project/vllm-ascend.git": "a clone, a pull and compilers",
    "git fetch && git checkout NEW": "no other version",
    "PARSER_DATABASE_URL=postgresql://user:password@host/database": "other machines",
    "scripts/eval_accuracy.py --model_path models/PaddleOCR-VL-1.6 --candidate npu --test_images a.png b.png": "a die",
    "scripts/select_npus.sh present": "a node with dies",
    "scripts/offline_bundle.sh save paddleocr-vl.tar --to-build aarch64": "registries",
}


def commands(block: Block) -> list[str]:
    """The lines of a block without comments."""
    return [line.partition("  #")[0].strip() for line in block.text.splitlines() if line.strip()]


def shell_blocks(path: Path) -> list[Block]:
    return [block for block in all_blocks(path) if block.language in ("sh", "bash")]


def test_every_block_that_no_test_runs_is_listed_with_its_reason():
    found = [block for path in GUIDES for block in shell_blocks(path) if block.mark.startswith("not run by ")]
    assert sorted(commands(block)[0].partition(" --output")[0] for block in found) == sorted(NOT_RUN)
    for block in found:
        assert re.match(r"not run by the tests: .{15}", block.mark), f"{block.mark}: expected a reason"


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_a_block_with_a_mark_is_run_by_the_test_that_it_names(path: Path):
    for block in shell_blocks(path):
        named = TESTS.findall(block.mark)
        assert named or not block.mark.startswith("run by"), f"{block.mark}: expected a file below tests/"
        for name in named:
            assert (ROOT / name).exists(), f"{block.mark}: there is no {name}"
        if block.mark.startswith("run by") and path != README:
            test = ROOT / named[0]
            assert re.search(rf'"{re.escape(block.section)}"', test.read_text()), (
                f"{named[0]} takes no block of {block.section}"
            )


def test_git_ignores_what_the_documents_commands_write():
    """It would make every later image's label `-dirty`, and some of it holds keys."""
    pages = [ROOT / "README.md", ROOT / "config/grafana/README.md", *(ROOT / "docs").glob("*.md")]
    found = {name for page in pages for block in shell_blocks(page) for name in WRITTEN.findall(block.text)} - {"yaml"}
    assert found >= {"api_keys", "callback_secrets", "backup.tar", "handbook.zip", "result", "performance.md"}
    found |= {"compose.override.yaml", "acceptance-node-20260131.tar.gz", "support-bundle.tar.gz", "paddleocr-vl.tar"}
    names = sorted(f"{name}/x" for name in found | {"vllm-ascend", "corpus"})
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *names], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == names


def test_the_guides_runner_takes_blocks_without_a_mark_and_the_readmes_take_none():
    ours = [block for page in guide() for block in shell_blocks(page) if not block.mark]
    sections = ["Install on a CPU machine", "Upgrade and rollback", "Keys, quotas and the audit log", "TLS in front"]
    assert {*sections, "Removal"} <= {block.section for block in ours}
    assert [block.text for block in shell_blocks(README) if not block.mark] == []


def test_the_guide_has_the_same_pages_in_both_languages():
    there = {path.stem for path in LANGUAGES["Chinese"].glob("*.md")} - {"README"}
    assert there == set(GUIDE), "docs/zh-CN holds the guide's pages and its index, and nothing else"


def shape(path: Path) -> list[str]:
    """What a page is made of, line by line, in no language: headings, items, rows with the code of their first cell."""
    found, in_block = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            in_block = not in_block
            found += [line] if in_block else []
        elif not in_block and (mark := re.match(r"#+ |- |\d+\. |\|", line)):
            cell = line.split("|")[1] if mark[0] == "|" else ""
            found.append(" ".join([mark[0].strip(), *re.findall(r"`([^`]+)`", cell)]))
    return found


@pytest.mark.parametrize("page", GUIDE)
def test_both_languages_of_a_page_have_the_same_sections_items_and_rows(page: str):
    english, chinese = (shape(folder / f"{page}.md") for folder in LANGUAGES.values())
    assert chinese == english


@pytest.mark.parametrize("page", GUIDE)
def test_both_languages_of_a_page_show_the_same_commands(page: str):
    english, chinese = (shell_blocks(folder / f"{page}.md") for folder in LANGUAGES.values())
    assert [commands(block) for block in chinese] == [commands(block) for block in english]


def test_the_demo_prints_the_same_in_both_languages():
    english, chinese = (
        next(block.text for block in all_blocks(ROOT / name) if "# Clean Water" in block.text)
        for name in ("README.md", "README.zh-CN.md")
    )
    assert english == chinese
