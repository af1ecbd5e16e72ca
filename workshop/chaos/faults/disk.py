# SPDX-License-Identifier: Apache-2.0
"""The parser's state on a small file system of its own, which is filled; and a database that is lost."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos.bundle_project import Bundle, BundleError
from chaos.faults.field import DISK_FULL, PARSER_AWAY, WORKER_KILLED, Action
from chaos.plan import Length, Step

MIB = 2**20
CHUNK = 4 * MIB
OWNER = 10001  # the images' user
BALLAST = "chaos-ballast"
# PARSER_MIN_FREE_MIB is 512 in the bundle: half of that is too little for new work, and enough for what is begun.
LITTLE = 256 * MIB
DATABASE = "data/jobs.sqlite3"


@contextlib.contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[str]:
    """A file system of so many MiB at `folder`, for the time of the context; gives its kind.

    ext4 in a file; in memory (tmpfs) where the machine has no loop devices. It is mounted here and not by the engine,
    so that it outlives the containers. Raises BundleError where neither can be mounted.
    """
    image = folder.with_suffix(".ext4")
    folder.mkdir()
    own = f"root_owner={OWNER}:{OWNER}"
    ways = {
        "ext4": (
            ["truncate", "--size", f"{mib}M", str(image)],
            ["mkfs.ext4", "-q", "-m", "0", "-E", own, str(image)],
            ["mount", "-o", "loop", str(image), str(folder)],
        ),
        "tmpfs": (["mount", "-t", "tmpfs", "-o", f"size={mib}m,uid={OWNER},gid={OWNER}", "tmpfs", str(folder)],),
    }
    problems: list[str] = []
    kind = next((name for name, commands in ways.items() if all(succeeds(words, problems) for words in commands)), "")
    if not kind:
        raise BundleError(f"no small file system for the parser's state can be mounted: {'; '.join(problems)}")
    folder.chmod(0o700)
    try:
        yield kind
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
        image.unlink(missing_ok=True)


def succeeds(words: list[str], problems: list[str]) -> bool:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        problems.append(f"{' '.join(words)}: {done.stderr.strip()}")
    return not done.returncode


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def fill(folder: Path, leave: int) -> None:
    """Write a file until so many bytes are free, or none can be written."""
    with (folder / BALLAST).open("ab") as file:
        while (room := free_bytes(folder) - leave) > 0:
            try:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), min(CHUNK, room))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return


def full(leave: int) -> Callable:
    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        try:
            fill(bundle.state, leave)
            yield f"{free_bytes(bundle.state) // 1024} KiB free"
        finally:
            (bundle.state / BALLAST).unlink(missing_ok=True)

    return begin


@contextlib.contextmanager
def lose_database(bundle: Bundle, step: Step) -> Iterator[str]:
    """The parser is killed, and starts without its database, as after a restore of the folders alone."""
    found = bundle.container("parser")
    bundle.docker("kill", found, check=False)
    removed = sorted(path.name for path in bundle.state.glob(f"{DATABASE}*"))
    for name in removed:
        (bundle.state / DATABASE).with_name(name).unlink()
    bundle.docker("start", found)
    yield f"removed {', '.join(removed) or 'nothing'}"


@contextlib.contextmanager
def remove_open_database(bundle: Bundle, step: Step) -> Iterator[str]:
    """Its files are removed under the running parser."""
    removed = sorted(path.name for path in bundle.state.glob(f"{DATABASE}*"))
    for name in removed:
        (bundle.state / DATABASE).with_name(name).unlink(missing_ok=True)
    yield f"removed {', '.join(removed) or 'nothing'}"


ACTIONS = {
    "disk low": Action(full(LITTLE), Length(5, 25), frozenset({DISK_FULL})),
    "disk full": Action(full(0), Length(5, 25), frozenset({DISK_FULL})),
    "database lost at a start": Action(lose_database, marks=frozenset({PARSER_AWAY, WORKER_KILLED})),
    "database removed while open": Action(remove_open_database, marks=frozenset({PARSER_AWAY, DISK_FULL})),
}
