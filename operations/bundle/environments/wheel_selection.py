# SPDX-License-Identifier: Apache-2.0
"""Whether a lock can be installed on a platform: every entry that holds there has a wheel for it, by its locked hash.

uv selects the wheels for another platform than this one and installs nothing. The index must answer.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from bundle.environments.uv import ensure_uv, registry_environment
from tool_errors import EnvironmentSetupError

# glibc 2.34 is that of openEuler 22.03, the oldest base that we name; Python 3.11.2 is Debian bookworm's.
PLATFORMS = ("x86_64-manylinux_2_34", "aarch64-manylinux_2_34")


def select(lock: Path, platform: str) -> int:
    """The number of wheels that a lock selects on a platform.

    Raises EnvironmentSetupError with uv's explanation where an entry has no wheel there.
    """
    with tempfile.TemporaryDirectory() as target:
        command = [str(ensure_uv()), "pip", "sync", "--dry-run", "--target", target, "--python-version", "3.11.2"]
        command += ["--python-platform", platform, "--only-binary", ":all:", "--require-hashes", str(lock)]
        # A folder of wheels holds those of this machine alone.
        environment = registry_environment(mirrors_only=True)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentSetupError(f"{lock.name} cannot be installed on {platform}: {done.stderr.strip()}")
    return sum(line.startswith(" + ") for line in done.stderr.splitlines())
