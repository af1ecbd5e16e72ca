# SPDX-License-Identifier: Apache-2.0
"""The sources of vllm-ascend that an image is built from: what VLLM_ASCEND_SOURCE names, else a release of the index.

VLLM_ASCEND_SOURCE is a git repository (bare or not) that has the pinned commits, or a folder with the sources of one
stack. The index has no commit between releases, so the default stack's are nowhere else.
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from bundle.environments.environment import split_entries
from bundle.environments.uv import ensure_uv
from bundle.wheels import download_source
from tests.support.paths import ROOT

SETTING = "VLLM_ASCEND_SOURCE"


@dataclass(frozen=True)
class Stack:
    """A file of config/stacks, as far as the Ascend image goes."""

    name: str

    @property
    def args(self) -> dict[str, str]:
        """The build arguments of the VLM server's image."""
        text = (ROOT / f"config/stacks/{self.name}.yaml").read_text()
        return {
            key: str(value) for key, value in yaml.safe_load(text)["services"]["vlm-ascend"]["build"]["args"].items()
        }

    @property
    def environment(self) -> str:
        return self.args["VLM_ENVIRONMENT"]

    @property
    def image(self) -> str:
        return f"paddleocr-vl/vlm-ascend:{self.name}"


def extract(archive: Path, target: Path) -> Path:
    """Unpack an archive; returns the folder that holds setup.py."""
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    [setup] = [path for path in (target / "setup.py", *target.glob("*/setup.py")) if path.is_file()]
    return setup.parent


def from_git(repository: Path, commit: str, target: Path) -> Path | None:
    """The tree of a commit, or None where `repository` is none that has it."""
    archive = target / "commit.tar"
    command = ["git", "-C", str(repository), "archive", "--output", str(archive), commit]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    return extract(archive, target / "sources")


def from_index(stack: Stack, target: Path) -> Path | None:
    """The source distribution of the release that the stack's tests lock; None where they lock none."""
    lock = ROOT / "config/requirements" / f"{stack.environment.replace('vlm-ascend', 'npu')}.txt"
    entries = [entry for entry in split_entries(lock.read_text()) if entry.startswith("vllm-ascend==")]
    if not entries:
        return None
    ensure_uv()
    # A source distribution is named with an underscore.
    (target / "lock.txt").write_text(entries[0].replace("vllm-ascend", "vllm_ascend", 1))
    download_source(target / "lock.txt", target)
    [archive] = target.glob("vllm_ascend-*.tar.gz")
    return extract(archive, target / "sources")


def belongs(folder: Path, stack: Stack) -> bool:
    """Whether a folder's sources are for the torch of this stack."""
    lists = folder / "CMakeLists.txt"
    found = re.search(r"Expected PyTorch version ([\d.]+),", lists.read_text()) if lists.is_file() else None
    return found is not None and found[1] == stack.args["TORCH_VERSION"]


def sources(stack: Stack, target: Path) -> Path | None:
    """A folder with the stack's sources below `target` or elsewhere, or None where there are none here."""
    if named := os.environ.get(SETTING):
        if found := from_git(Path(named), stack.args["VLLM_ASCEND_VERSION"], target):
            return found
        if belongs(Path(named), stack):
            return Path(named)
    return from_index(stack, target)
