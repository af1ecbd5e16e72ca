# SPDX-License-Identifier: Apache-2.0
"""The sources of vllm-ascend: what VLLM_ASCEND_SOURCE names, else for an image a release of the index.

VLLM_ASCEND_SOURCE is a git repository (bare or not) that has the pinned commits, or a folder with the sources of one
stack. The index has no commit between releases, so the default stack's are nowhere else.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from bundle.compose import images
from bundle.environments.environment import split_entries
from bundle.environments.uv import ensure_uv
from bundle.wheels import download_source
from tests.support.paths import ROOT

SETTING = "VLLM_ASCEND_SOURCE"
PATCHES = ROOT / "operations/bundle/image_build/patches"
STACKS = ("0.23.0", "0.11.1")


@dataclass(frozen=True)
class Stack:
    """A file of config/stacks, as far as the Ascend image goes."""

    name: str

    @property
    def args(self) -> dict[str, str]:
        """The build arguments of the VLM server's image, where no setting says otherwise."""
        text = (ROOT / f"config/stacks/{self.name}.yaml").read_text()
        given = yaml.safe_load(text)["services"]["vlm-a3"]["build"]["args"]
        return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value)) for name, value in given.items()}

    @property
    def environment(self) -> str:
        return self.args["VLM_ENVIRONMENT"]

    @property
    def image(self) -> str:
        return images.vlm("a3", self.name)


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


def named(stack: Stack, target: Path) -> Path | None:
    """The stack's sources in what VLLM_ASCEND_SOURCE names, or None where it names none of them."""
    setting = os.environ.get(SETTING)
    if not setting:
        return None
    if found := from_git(Path(setting), stack.args["VLLM_ASCEND_VERSION"], target):
        return found
    return Path(setting) if belongs(Path(setting), stack) else None


def sources(stack: Stack, target: Path) -> Path | None:
    """A folder with the stack's sources below `target` or elsewhere, or None where there are none here."""
    return named(stack, target) or from_index(stack, target)


def patched(package: Path, stack: Stack, place: Path) -> None:
    """Copy the package to a folder, with our patches of it."""
    shutil.copytree(package, place / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    for patch in patches(stack):
        subprocess.run(
            ["git", "apply", "--include", f"{package.name}/*", patch],
            cwd=place,
            check=True,
            capture_output=True,
            text=True,
        )


def patches(stack: Stack) -> list[Path]:
    """Ours for the stack's commit."""
    return sorted((PATCHES / stack.args["VLLM_ASCEND_VERSION"]).glob("*.patch"))


def importable(stack: Stack, target: Path) -> Path | None:
    """A folder for sys.path with the Python code that the stack's image has: the installed package with our patches, or
    the named sources with them and upstream's entry points, but without kernels. None where neither is there, and where
    the installed package is used as it is."""
    (target / "sources").mkdir()
    place, installed = target / "packages", importlib.util.find_spec("vllm_ascend")
    if installed is not None and installed.origin is not None:
        # It has the compiled extension, which sources have not.
        if not patches(stack):
            return None
        patched(Path(installed.origin).parent, stack, place)
        return place
    found = named(stack, target / "sources")
    if found is None:
        return None
    patched(found / "vllm_ascend", stack, place)
    metadata = place / f"vllm_ascend-{stack.args['VLLM_ASCEND_PACKAGE_VERSION']}.dist-info"
    metadata.mkdir()
    version = metadata.name.removesuffix(".dist-info").partition("-")[2]
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm_ascend\nVersion: {version}\n")
    groups = entry_points(found / "setup.py").items()
    text = "\n".join("\n".join((f"[{group}]", *lines, "")) for group, lines in groups)
    (metadata / "entry_points.txt").write_text(text)
    return place


def entry_points(setup: Path) -> dict[str, list[str]]:
    """What upstream's setup.py gives as `entry_points`."""
    for node in ast.walk(ast.parse(setup.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "entry_points":
            return ast.literal_eval(node.value)
    raise LookupError(f"{setup} has no entry_points")
