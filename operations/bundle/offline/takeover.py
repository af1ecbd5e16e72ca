# SPDX-License-Identifier: Apache-2.0
"""What a new folder takes over from the one before it: settings, chosen dies, weights. The old folder stays whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import declared_settings
from bundle import envfile, files
from bundle.progress import say
from tool_errors import UsageError

# Files of an operator, not of the archive; a pattern for each.
OWN = (".env", "compose.override.yaml", "config/compose/dies/*.yaml")


def check_folder(old: Path, new: Path) -> None:
    """Raise UsageError unless `old` is another folder of the bundle."""
    if not (old / "compose.yaml").is_file() or old.resolve() == new.resolve():
        raise UsageError(f"--from {old}: expected another folder of this bundle, with compose.yaml and .env")


def own_files(old: Path, new: Path, archive: Iterable[str]) -> list[Path]:
    """Return the operator's files in `old`, relative to it. `archive` names what the new folder had when it was packed.

    Raises UsageError where `old` is no such folder, or where a file would be overwritten by another one.
    """
    check_folder(old, new)
    carried = set(archive)
    found = [path.relative_to(old) for pattern in OWN for path in sorted(old.glob(pattern))]
    found = [path for path in found if str(path) not in carried]
    for path in found:
        if (new / path).exists() and (new / path).read_bytes() != (old / path).read_bytes():
            raise UsageError(f"--from {old}: {new / path} is there and differs; remove one of them")
    return found


def take_over(old: Path, new: Path, archive: Iterable[str]) -> None:
    """Copy the operator's files, and link the weights that lie in the old folder. Nothing is overwritten.

    Raises UsageError, before anything is changed, as `own_files` does.
    """
    for path in own_files(old, new, archive):
        with files.whole(new / path) as part:
            shutil.copy2(old / path, part)
        say(f"{path} as in {old}")
    values = envfile.merged(new / ".env")
    named = Path(declared_settings.text(values, "MODELS_DIR")).expanduser()
    models = old / named
    if named.is_absolute():
        say(f"weights stay in {models} (MODELS_DIR)")
        return
    for entry in sorted(models.iterdir()) if models.is_dir() else ():
        target = new / models.relative_to(old) / entry.name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            link(entry, target)
            say(f"{target.relative_to(new)} as in {old}, on the disk only once")


def link(source: Path, target: Path) -> None:
    """Hard links, so that either folder can be removed; copies where the two folders are on different disks."""
    part = target.with_name(f"{target.name}.part")

    def one(file: str, to: str) -> None:
        try:
            os.link(file, to)
        except OSError:
            shutil.copy2(file, to)

    shutil.rmtree(part, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, part, copy_function=one)
    else:
        one(str(source), str(part))
    part.replace(target)


def begin(new: Path, settings: Mapping[str, str]) -> None:
    """Write `.env` with what the archive was made for, where there is none."""
    path = new / ".env"
    if path.exists():
        return
    lines = (new / ".env.example").read_text(encoding="utf-8").splitlines()[1:]  # without "Copy this file to .env"
    known = [line.partition("=")[0] for line in lines]
    for name, value in settings.items():
        if name in known:
            lines[known.index(name)] = f"{name}={value}"
        else:
            lines.append(f"{name}={value}")
    files.write(path, ("\n".join(lines) + "\n").encode())
    made = " ".join(f"{name}={value}" for name, value in settings.items())
    say(f"made {path} for this archive's images ({made}); set MODELS_DIR, NPU_IDS and ASCEND_GID there if they differ")
