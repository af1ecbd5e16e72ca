# SPDX-License-Identifier: Apache-2.0
"""What the archive holds: one folder, `paddleocr-vl-VERSION/` (`origin.NAME`), that works where it is unpacked.

tests/bundle/test_carried_scripts.py holds that each script in it finds there what it needs.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bundle.compose.mounted import on_host
from bundle.paths import ROOT, VALUES
from served_weights.settings import WeightSettings
from served_weights.vlm import is_absent, named
from tool_errors import UsageError

# Names in that folder: digests of all files and of layers; the images; the Compose plugin; bills of materials.
MANIFEST, IMAGES, PLUGIN, BILLS = "offline.json", "images.tar", "docker-compose", "bills"
# Files and folders of the checkout that travel: what compose mounts and builds, what the scripts run, and the guides.
TREE = (
    "LICENSE",
    "LICENSES",
    "REUSE.toml",
    "SECURITY.md",
    "README.md",
    "README.zh-CN.md",
    "CHANGELOG.md",
    ".env.example",
    "compose.yaml",
    "Dockerfile.cpu",
    "Dockerfile.ascend",
    ".dockerignore",
    "config",
    "deploy",
    "scripts",
    "operations",
    "common",
    "model_code",
    "parser",
    "docs",
    "models/README.md",
    "models/demo",
    # What the self-test and the acceptance send.
    "tests/data",
)
# A site's own folder (docs/kubernetes.md), with its keys.
SITE = "deploy/kubernetes/site"
# Scripts for a checkout with a network, or with the tests: they make what the others use.
NOT_CARRIED = tuple(f"scripts/{name}.sh" for name in ("fetch_wheels", "lock_requirements", "release", "test"))


def tree_files() -> list[Path]:
    """Return the files of the checkout that travel: no file of the site's own, such as keys for its cluster, and
    nothing that Python and installers left behind. Raises UsageError where git does not answer."""
    carried = (ROOT / name for name in names() if name not in NOT_CARRIED)
    return sorted(
        path
        for path in carried
        if path.is_file() and not any(left_behind(part) for part in path.relative_to(ROOT).parts)
    )


def names() -> list[str]:
    """The names of the tree's files. What else lies between them is the site's: git ignores it, and an archive's
    manifest does not list it. Raises UsageError."""
    if (ROOT / ".git").exists():
        return listed_by_git()
    if (manifest := ROOT / MANIFEST).is_file():  # an unpacked archive
        listed = json.loads(manifest.read_text(encoding="utf-8"))["files"]
        return [name for name in listed if any(name == part or name.startswith(f"{part}/") for part in TREE)]
    # A release's sources have no list.
    found = [path for name in TREE for path in (ROOT / name, *(ROOT / name).rglob("*"))]
    return [name for path in found if not (name := str(path.relative_to(ROOT))).startswith(f"{SITE}/")]


def listed_by_git() -> list[str]:
    """What git does not ignore. Raises UsageError."""
    words = ("git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z", "--", *TREE)
    try:
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = (
            " ".join(error.stderr.split())
            if isinstance(error, subprocess.CalledProcessError)
            else f"git: {error.strerror}"
        )
        raise UsageError(
            f"git does not say which files of {ROOT} are the site's own, so nothing was packed: {said}; install git, "
            "and run this as the owner of the folder"
        ) from error
    return [name for name in listed.split("\0") if name]


def left_behind(name: str) -> bool:
    """Tell whether a file or folder is a by-product of Python or of an editable install."""
    return name == "__pycache__" or name.endswith((".pyc", ".egg-info"))


def weight_files() -> list[tuple[Path, str]]:
    """Return the files of the weights that would be served, with their names in the archive.

    Raises UsageError if there are none but the demo's.
    """
    settings = WeightSettings.from_environment(on_host(VALUES))
    model, folder = named(settings)
    if not folder.is_relative_to(settings.models_dir) or is_absent(folder):
        raise UsageError(f"--weights: {folder} is not there; run scripts/fetch_weights.sh hf {model.name}")
    return [
        (path, f"models/{path.relative_to(settings.models_dir)}")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
