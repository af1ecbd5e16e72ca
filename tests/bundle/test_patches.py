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


def commits() -> dict[str, str]:
    """vllm-ascend's commit -> the stack that is built of it."""
    stacks = [yaml.safe_load(path.read_text()) for path in (ROOT / "config/stacks").glob("*.yaml")]
    arguments = [stack["services"]["vlm-a3"]["build"]["args"] for stack in stacks]
    return {str(one["VLLM_ASCEND_VERSION"]): str(one["STACK"]) for one in arguments}


def commit_of(path: Path) -> str:
    """A patch in COMMIT/build is for compiling alone."""
    return path.relative_to(PATCHES).parts[0]


def test_stacks_have_their_mends():
    of_stack = {"grids_stay_on_host": "0.11.1", "length_of_a_step": "0.11.1", "npu_mrope_positions": "0.11.1"}
    of_stack |= {"masks_as_large_as_needed": "0.11.1", "operators_by_max_jobs": "0.11.1"}
    of_stack |= {"slots_without_triton": "0.23.0"}
    of_stack |= {"numbers_of_the_sampler": "0.23.0", "operators_without_downloads": "0.23.0"}
    assert {path.stem: commits()[commit_of(path)] for path in FILES} == of_stack


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_patch_belongs_to_a_stack_and_says_why(path: Path):
    assert commit_of(path) in commits()
    reason = path.read_text().partition("--- a/")[0]
    assert all(f"\n{word}" in reason for word in ("What:", "Why:", "How:", "When it can go:"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_patch_applies_once(path: Path, tmp_path: Path):
    """To files that have the lines of the commit at their places; a second time it does not, and is recognised."""
    hunks: dict[Path, list[tuple[str, str]]] = {}
    for part in re.split(r"(?m)^--- ", path.read_text())[1:]:
        name = re.search(r"(?m)^\+\+\+ b/(.+)$", part)
        assert name
        target = tmp_path / name[1]
        hunks[target] = re.findall(r"(?ms)^@@ -(\d+)[^\n]*\n(.*?)(?=^@@|\Z)", part)
        target.parent.mkdir(parents=True, exist_ok=True)
        if part.startswith("/dev/null"):
            continue
        lines: list[str] = []
        for start, hunk in hunks[target]:
            lines += ["#"] * (int(start) - 1 - len(lines))
            lines += [line[1:] for line in hunk.splitlines() if not line.startswith("+")]
        target.write_text("\n".join([*lines, *["#"] * 9]) + "\n")

    def apply(*options: str) -> int:
        return subprocess.run(
            ["git", "apply", *options, path], cwd=tmp_path, capture_output=True, check=False
        ).returncode

    assert apply() == 0
    for target, found in hunks.items():
        for _, hunk in found:
            after = [line[1:] for line in hunk.splitlines() if not line.startswith("-")]
            assert "\n".join(after) in target.read_text()
    assert apply() != 0 and apply("--reverse", "--check") == 0


def test_what_upstream_compiled_gets_no_patch_for_compiling(tmp_path: Path):
    """VLLM_ASCEND_IMAGE: upstream's build leaves files where such a patch would make some."""
    dockerfile = (ROOT / "Dockerfile.ascend").read_text()
    taken = dockerfile.partition("AS upstream_wheel")[2].partition("AS kernels")[0]
    assert 'patches/${VLLM_ASCEND_VERSION}"' in taken and "/build" not in taken
    for folder in PATCHES.iterdir():
        words = [PATCHES.parent / "patch_sources.sh", tmp_path, folder / "build"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        # An empty tree fits none of them; without any there is nothing to do.
        assert (done.returncode == 2) == any((folder / "build").glob("*.patch")), done.stderr
