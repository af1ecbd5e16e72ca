# SPDX-License-Identifier: Apache-2.0
"""Patches of vllm-ascend: each belongs to a stack's commit and says why it is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT

PATCHES = ROOT / "operations/bundle/image_build/patches"
FILES = sorted(PATCHES.rglob("*.patch"))


def commits() -> set[str]:
    stacks = [yaml.safe_load(path.read_text()) for path in (ROOT / "config/stacks").glob("*.yaml")]
    return {str(stack["services"]["vlm-a3"]["build"]["args"]["VLLM_ASCEND_VERSION"]) for stack in stacks}


def test_the_default_stack_has_its_mends():
    assert [path.stem for path in FILES] == ["grids_stay_on_host", "length_of_a_step", "npu_mrope_positions"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_patch_belongs_to_a_stack_and_says_why(path: Path):
    assert path.parent.name in commits()
    reason = path.read_text().partition("--- a/")[0]
    assert all(f"\n{word}" in reason for word in ("What:", "Why:", "How:", "When it can go:"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_patch_applies_once(path: Path, tmp_path: Path):
    """To a file that has the lines of the commit at their place; a second time it does not, and is recognised."""
    text = path.read_text()
    name = re.search(r"(?m)^--- a/(.+)$", text)
    first = re.search(r"(?m)^@@ -(\d+),", text)
    assert name and first
    hunk = text.partition(" @@\n")[2].splitlines()
    before = [line[1:] for line in hunk if not line.startswith("+")]
    after = [line[1:] for line in hunk if not line.startswith("-")]
    start = int(first[1]) - 1
    target = tmp_path / name[1]
    target.parent.mkdir(parents=True)
    target.write_text("\n".join(["#"] * start + before + ["#"] * 9) + "\n")

    def apply(*options: str) -> int:
        return subprocess.run(
            ["git", "apply", *options, path], cwd=tmp_path, capture_output=True, check=False
        ).returncode

    assert apply() == 0
    assert target.read_text().splitlines()[start : start + len(after)] == after
    assert apply() != 0 and apply("--reverse", "--check") == 0
