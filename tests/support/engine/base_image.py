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
        for name in UNWANTED:
            shutil.rmtree(tree / name, ignore_errors=True)
            (tree / name).mkdir(parents=True, exist_ok=True)
        with subprocess.Popen(["tar", "-C", str(tree), "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(
                ["docker", "import", "--change", 'CMD ["bash"]', "-", NAME],
                env=env,
                stdin=tar.stdout,
                stdout=subprocess.DEVNULL,
                check=True,
            )
