# SPDX-License-Identifier: Apache-2.0
"""The output that README and docs/tools.md show is what the commands print with today's demo weights.

Times and the machine's name count as any; where a sample's numbers depend on the processor, all of its numbers do.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.docs import Block, all_blocks
from tests.support.local_mode import LocalMode
from tests.support.paths import ROOT, python_of

pytestmark = pytest.mark.long

TOOLS = all_blocks(ROOT / "docs/tools.md")
TIME = re.compile(r"(?:[0-9]+ min )?[0-9]+(?:\.[0-9]+)? m?s\b")
MACHINE = re.compile(r"\bcpu \(.*?, \d+ threads?\)")  # a name may have brackets of its own: Intel(R) Xeon(R)
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
SECONDS = 900  # two busy cores are slow


def sample(section: str) -> tuple[str, Block]:
    """The first command of a section of docs/tools.md, and the output below it."""
    inside = [block for block in TOOLS if block.section == section]
    at = next(number for number, block in enumerate(inside) if block.language == "text")
    command = next(block for block in inside[:at] if block.language == "sh")
    return command.text.splitlines()[0], inside[at]


def printed(command: str, folder: Path, local: LocalMode, needs: Path) -> str:
    """Both streams of a command of the docs, which writes its files to `folder`. Its exit status may be 1. `needs` is
    the interpreter that it runs on."""
    if not needs.is_file():
        pytest.skip(f"{needs} is missing: scripts/setup_env.sh {needs.parts[-3]}")
    words = [str(folder / word) if word.startswith("explained") else word for word in shlex.split(command)]
    done = subprocess.run(
        [str(ROOT / words[0]), *words[1:]],
        cwd=ROOT,
        env=local.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout
    return done.stdout


def lines(text: str, *, numbers: bool) -> list[str]:
    """What counts of an output; with `numbers`, its numbers too."""
    text = MACHINE.sub("cpu", TIME.sub("N s", text))
    return [
        " ".join((line if numbers else NUMBER.sub("N", line)).split()) for line in text.splitlines() if line.strip()
    ]


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_readme_begins_as_the_demo_does(local: LocalMode, name: str):
    shown = next(block.text for block in all_blocks(ROOT / name) if "# Clean Water" in block.text)
    page = shown[shown.index("# Clean Water") :].partition("\n...")[0]
    assert (local.folder / "first.stdout").read_text().startswith(page)
    said = (local.folder / "first.stderr").read_text()
    assert "DEMO WEIGHTS are in use" in shown and "DEMO WEIGHTS are in use" in said


@pytest.mark.parametrize("section", ["inference.py", "explain_inputs.py"])
def test_what_the_tools_print(local: LocalMode, tmp_path: Path, section: str):
    command, shown = sample(section)
    found = re.sub(r"^picture: .*\n", "", printed(command, tmp_path, local, python_of("reference")), flags=re.MULTILINE)
    assert lines(shown.text, numbers=True) == lines(found, numbers=True)


def test_what_the_self_test_prints(local: LocalMode, tmp_path: Path):
    """How far log-probabilities differ depends on the processor, and so does whether a near tie turns."""
    command, shown = sample("selftest.sh")
    found = printed(command, tmp_path, local, python_of("tools"))
    checks = [
        re.match(r"(\w+ +[\w.]+: ?|self-test \w+)", line) for text in (shown.text, found) for line in text.splitlines()
    ]
    names = [match[1] for match in checks if match]
    assert len(names) == 2 * len(shown.text.splitlines())
    assert names[: len(names) // 2] == names[len(names) // 2 :]


def test_what_a_folder_prints(local: LocalMode, tmp_path: Path):
    shown = next(block.text for block in TOOLS if block.text.startswith("4 documents, 6 pages"))
    command = f"scripts/parse_folder.py tests/data --out {tmp_path / 'result'} --server {local.parser_url}"
    found = printed(f"{command} --formats md,json,xlsx,docx,pdf,layout", tmp_path, local, python_of("client"))
    first, *_, last = lines(found, numbers=True)
    assert lines(shown, numbers=True) == [first, last]


def test_lower_lines_of_a_pages_blocks_are_judged_by_the_running_bundle(local: LocalMode, tmp_path: Path):
    """docs/install.md's command; the demo weights read lines of 24 pixels as they read whole crops."""
    words = f"--test_pages {ROOT}/tests/data/letter.png --parser {local.parser_url} --candidate vllm:{local.vlm_url}"
    rest = f"--line_pixels 24 --max_new_tokens 12 --threshold_top1 97 --output {tmp_path / 'report.md'}"
    command = f"scripts/eval_accuracy.py --model_path models/demo/PaddleOCR-VL {words} {rest}"
    found = printed(command, tmp_path, local, python_of("reference"))
    assert "blocks of letter.png" in found and "PASSED" in found, found
    tokens = [list(map(int, pair)) for pair in re.findall(r"(\d+) tokens of the image, (\d+) with", found)]
    whole, lower = (sum(side) for side in zip(*tokens))
    assert len(tokens) >= 8 and lower < 0.7 * whole
