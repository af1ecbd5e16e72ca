# SPDX-License-Identifier: Apache-2.0
"""The parser's state on a small file system of its own, which is filled or turns read-only; a database that is lost."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos.bundle_project import Bundle, BundleError, wait_until
from chaos.faults.field import DISK_FULL, PARSER_AWAY, WORKER_KILLED, Action, NotNow
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
    image = ext4_file(folder)
    folder.mkdir()
    own = f"root_owner={OWNER}:{OWNER}"
    ways = {
        "ext4": (
            ["truncate", "--size", f"{mib}M", str(image)],
            ["mkfs.ext4", "-q", "-m", "0", "-E", own, str(image)],
            mount_ext4(folder),
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


def ext4_file(folder: Path) -> Path:
    return folder.with_suffix(".ext4")


def mount_ext4(folder: Path) -> list[str]:
    return ["mount", "-o", "loop", str(ext4_file(folder)), str(folder)]


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
def turn_read_only(bundle: Bundle, step: Step) -> Iterator[str]:
    """The file system turns read-only under the running parser, as ext4 does when its disk fails, and forgets what was
    not flushed. It is mounted anew while the parser is stopped, as an operator would do it."""
    if not ext4_file(bundle.state).exists():
        raise NotNow("the state lies in memory, which cannot turn read-only while files are open")
    subprocess.run(["mount", "-o", "remount,abort", str(bundle.state)], check=True)
    parser = bundle.container("parser")
    try:
        yield "the file system was aborted"
    finally:
        bundle.docker("kill", parser, check=False)
        problems: list[str] = []
        if not wait_until(lambda: succeeds(["umount", str(bundle.state)], problems), 30, 0.2):
            raise BundleError(f"the parser's state stays in use: {problems[-1]}")
        subprocess.run(mount_ext4(bundle.state), check=True)
        bundle.docker("start", parser)


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
    "disk read-only": Action(turn_read_only, Length(5, 15), frozenset({DISK_FULL, PARSER_AWAY, WORKER_KILLED})),
    "database lost at a start": Action(lose_database, marks=frozenset({PARSER_AWAY, WORKER_KILLED})),
    "database removed while open": Action(remove_open_database, marks=frozenset({PARSER_AWAY, DISK_FULL})),
}
