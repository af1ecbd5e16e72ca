# SPDX-License-Identifier: Apache-2.0
"""A folder of weights gets its name only when it is whole: what a half-written one must pass, and how it is renamed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tool_errors import UsageError, WeightsError

from . import layout, vlm
from .catalog import Catalog, Model
from .manifest import verify

# What the hubs' clients leave behind beside the files.
LEFTOVERS = (".cache", ".git", "._____temp")


def part_of(target: Path) -> Path:
    """The folder beside `target` in which its files are gathered."""
    return target.with_name(f".{target.name}.part")


def gather(model: Model, part: Path, download: Callable[[str, Path], None]) -> None:
    """Let ``download`` bring the model's repository to the folder, and that of its layout model inside, unless it is
    there. Raises UsageError where the entry names no repository."""
    if model.repository is None:
        raise UsageError(
            f"models.yaml: models.{model.name} lacks the key 'repository', so no hub can be asked; copy the weights to "
            f"{model.path} in MODELS_DIR"
        )
    bring(model.repository, part, download)
    inside = part / layout.name_of(model)
    if model.layout_repository and not layout.is_complete(inside):
        bring(model.layout_repository, inside, download)


def bring(repository: str, folder: Path, download: Callable[[str, Path], None]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    download(repository, folder)
    for name in LEFTOVERS:
        shutil.rmtree(folder / name, ignore_errors=True)


def check_whole(part: Path, model: Model, catalog: Catalog) -> None:
    """Raise WeightsError unless the folder holds the model, its layout model, and what its manifest lists."""
    vlm.check_complete(part)
    vlm.check_identity(part, model, catalog)
    if layout.has_one(model):
        check_layout(part, layout.name_of(model))
    verify(part)


def check_layout(part: Path, inside: str) -> None:
    """Raise WeightsError unless the layout model lies in the folder ``inside``."""
    for name in layout.FILES:
        if not (part / inside / name).is_file():
            raise WeightsError(f"the weights lack {inside}/{name}; expected the VLM's folder with {inside} inside")
    layout.check_name(part / inside, inside)


def is_whole(folder: Path) -> bool:
    """Whether the folder has a manifest and agrees with it."""
    try:
        return verify(folder) > 0
    except WeightsError:
        return False


def put_in_place(part: Path, target: Path) -> None:
    """Rename the finished folder to its final name, and only then remove what was there before."""
    for path in (part, *part.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    former = target.with_name(f".{target.name}.old")
    shutil.rmtree(former, ignore_errors=True)
    if target.exists():
        target.rename(former)
    part.rename(target)
    shutil.rmtree(former, ignore_errors=True)
