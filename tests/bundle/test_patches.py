# SPDX-License-Identifier: Apache-2.0
"""Patches of vllm-ascend: each belongs to a stack's commit and says why it is there."""

from __future__ import annotations

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


def test_the_default_stack_has_the_mend_of_its_positions():
    assert [path.name for path in FILES] == ["npu_mrope_positions.patch"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_patch_belongs_to_a_stack_and_says_why(path: Path):
    assert path.parent.name in commits()
    reason = path.read_text().partition("--- a/")[0]
    assert all(f"\n{word}" in reason for word in ("What:", "Why:", "How:", "When it can go:"))


def test_the_positions_become_contiguous(tmp_path: Path):
    """On a file that has the lines of the commit at their place; a second time it does not apply, and is recognised."""
    [path] = FILES
    hunk = path.read_text().partition("@@ -429,2 +429,2 @@\n")[2].splitlines()
    before = [line[1:] for line in hunk if not line.startswith("+")]
    target = tmp_path / "vllm_ascend/ops/rotary_embedding.py"
    target.parent.mkdir(parents=True)
    target.write_text("\n".join(["#"] * 428 + before + ["#"] * 9) + "\n")

    def apply(*options: str) -> int:
        return subprocess.run(
            ["git", "apply", *options, path], cwd=tmp_path, capture_output=True, check=False
        ).returncode

    assert apply() == 0
    assert target.read_text().splitlines()[428].endswith("npu_mrope(positions.contiguous(),")
    assert apply() != 0 and apply("--reverse", "--check") == 0
