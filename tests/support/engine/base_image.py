# SPDX-License-Identifier: Apache-2.0
"""The base image `debian:bookworm-slim`, made with debootstrap where it cannot be pulled."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from .daemon import Engine
from .packages import EngineError, archive, run

NAME = "debian:bookworm-slim"
# The same for aarch64, by a tag of its own: an engine keeps one platform under a tag.
ARM64_NAME = "debian:bookworm-slim-arm64"
# Where the kernel keeps how it runs programs of aarch64: the package qemu-user-static registers it.
EMULATOR = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
# What the published slim image leaves out.
UNWANTED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "var/cache/apt/archives",
    "var/lib/apt/lists",
    "var/cache/debconf",
)


def ensure(engine: Engine) -> None:
    """Make the image unless the engine has it, or can pull it; then run it once.

    Raises EngineError where the engine cannot run a container at all: it lacks control groups or the right to mount.
    """
    make(engine)
    trial = subprocess.run(
        ["docker", "run", "--rm", "--network", "none", NAME, "true"],
        env=dict(engine.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if trial.returncode:
        raise EngineError(f"the engine cannot run a container here: {trial.stderr.strip()[-500:]}")


def make(engine: Engine) -> None:
    """Make the image unless the engine has it, or can pull it."""
    env = dict(engine.environment)
    for command in (["docker", "image", "inspect", NAME], ["docker", "pull", "--quiet", NAME]):
        if subprocess.run(command, env=env, capture_output=True, check=False).returncode == 0:
            return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "bookworm"
        run(["debootstrap", "--variant=minbase", "bookworm", str(tree), archive()])
        import_tree(tree, NAME, env)


def make_arm64(engine: Engine) -> None:
    """Make the image for aarch64 unless the engine has it; its programs run under QEMU's user emulation.

    Raises EngineError where the kernel does not know how to run them.
    """
    env = dict(engine.environment)
    if subprocess.run(["docker", "image", "inspect", ARM64_NAME], env=env, capture_output=True).returncode == 0:
        return
    if not EMULATOR.is_file():
        raise EngineError("this kernel runs no program of aarch64: apt-get install qemu-user-static binfmt-support")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "bookworm"
        run(["debootstrap", "--arch=arm64", "--foreign", "--variant=minbase", "bookworm", str(tree), archive()])
        run(["chroot", str(tree), "/debootstrap/debootstrap", "--second-stage"])
        import_tree(tree, ARM64_NAME, env, "--platform", "linux/arm64")


def import_tree(tree: Path, name: str, env: dict[str, str], *words: str) -> None:
    """Give the engine a file tree as an image."""
    for unwanted in UNWANTED:
        shutil.rmtree(tree / unwanted, ignore_errors=True)
        (tree / unwanted).mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["tar", "-C", str(tree), "-c", "."], stdout=subprocess.PIPE) as tar:
        subprocess.run(
            ["docker", "import", *words, "--change", 'CMD ["bash"]', "-", name],
            env=env,
            stdin=tar.stdout,
            stdout=subprocess.DEVNULL,
            check=True,
        )
