# SPDX-License-Identifier: Apache-2.0
"""Folders that a replica or the layout server writes to, on the container's volume: working directory, CANN's
compiled operators and logs.

CANN writes `kernel_meta` and the debug files of its operator compiler into the working directory, which in the image is
read-only (decision 0413).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def state(env: Mapping[str, str]) -> Path:
    """The volume of the container, RUN_DIR where there is none (local mode)."""
    return Path(env.get("STATE_DIR") or env["RUN_DIR"])


def logs(env: Mapping[str, str]) -> Path:
    """CANN's logs, a folder for each replica, and `layout`."""
    return state(env) / "ascend-log"


def replicas_folder(env: Mapping[str, str]) -> Path:
    """The folder of all replicas' folders."""
    return state(env) / "replicas"


def work(env: Mapping[str, str], index: int | str) -> Path:
    """The working directory of a replica, or of the layout server (`layout`)."""
    return replicas_folder(env) / str(index) / "work"


def make(env: Mapping[str, str], index: int | str) -> dict[str, str]:
    """Make the folders of `work`. Returns CANN's variables for them.

    ASCEND_WORK_PATH is for the files of one process, ASCEND_CACHE_PATH for operators that are compiled once and read
    again. Each version of CANN has a cache folder of its own, and those of other versions are removed: an upgrade of
    CANN empties only its default folder, not a named one (op_compiler_cache_dir), and the volume outlives the image.
    """
    caches, version = work(env, index).with_name("cache"), env.get("CANN_VERSION") or "unnamed"
    for other in caches.glob("*"):
        if other.name != version:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    folders = {
        "ASCEND_WORK_PATH": work(env, index),
        "ASCEND_CACHE_PATH": caches / version,
        "ASCEND_PROCESS_LOG_PATH": logs(env) / str(index),
    }
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    return {name: str(folder) for name, folder in folders.items()}


def opened() -> set[str]:
    """Files that this user's processes hold open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # it ended, or is another user's
            found.add(os.readlink(link))
    return found


def prune(env: Mapping[str, str], limit: int) -> int:
    """Remove the oldest logs and files of working directories until all together have at most `limit` bytes; returns
    how many were removed.

    A process rotates its own logs, but those of earlier processes stay, and so do `kernel_meta` and dumps. Open files
    are kept: otherwise the writer would go on in a file without a name, and never notice that it is full.
    """
    found = []
    folders = [logs(env), *(work(env, folder.name) for folder in replicas_folder(env).glob("*"))]
    for path in (path for folder in folders for path in folder.rglob("*")):
        try:
            if path.is_file() and not path.is_symlink():
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        except OSError:
            continue  # the process that wrote it rotated it away
    total, removed = sum(size for _, size, _ in found), 0
    used = opened() if total > limit else set()
    for _, size, path in sorted(found):
        if total <= limit:
            break
        if str(path) in used:
            continue
        path.unlink(missing_ok=True)
        total, removed = total - size, removed + 1
    return removed
