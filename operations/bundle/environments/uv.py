# SPDX-License-Identifier: Apache-2.0
"""The uv installer: pip installs it from a hashed lock, and it uses the indexes that pip is configured for."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

from bundle.environments.environment import is_current, write_stamp
from bundle.paths import ENVS_DIR, REQUIREMENTS, RUN_DIR, shown
from bundle.progress import run_logged
from tool_errors import EnvironmentSetupError

# Ours: uv has the option --no-index, but no variable for it.
NO_INDEX = "BUNDLE_NO_INDEX"
# pip's setting -> the variable through which uv takes the same thing.
PIP_TO_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "trusted-host": "UV_INSECURE_HOST",
    "no-index": NO_INDEX,
}


@functools.cache
def registry_environment(*, mirrors_only: bool = False) -> dict[str, str]:
    """The process environment for uv, with pip's index settings handed on. A UV_* variable that is set already wins.

    uv does not read pip's configuration, and a machine with a mirror or an internal index usually has nothing else.
    Call it after `ensure_uv`. `mirrors_only` leaves out additional indexes and folders of wheels: a lock must list the
    hashes of every platform's files, and a local folder holds those of one platform.
    """
    env = dict(os.environ)
    # The bootstrap environment always has pip; this Python may have none.
    python = ENVS_DIR / "bootstrap" / "bin" / "python"
    listed = subprocess.run(
        [str(python), "-m", "pip", "config", "list", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=False,
    )
    settings: dict[str, str] = {}
    # ":env:.cert", "global.cert", "install.cert", the strongest last; only the environment's, which win, come first.
    for line in sorted(listed.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = value.strip("'\"").replace("\\n", " ").strip()
    for name, variable in PIP_TO_UV.items():
        if mirrors_only and name in ("extra-index-url", "find-links"):
            continue
        if settings.get(name) and not env.get(variable):
            env[variable] = ",".join(settings[name].split()) if name == "find-links" else settings[name]
    # Search all indexes: every pin has a hash, so a package of the same name in another index cannot slip in.
    env.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    env.setdefault("UV_HTTP_TIMEOUT", "180")
    return env


def pip_command(python: Path, arguments: list[str]) -> list[str]:
    """The words of `uv pip ARGUMENTS` for the environment of this Python. Run them in `registry_environment`."""
    without_index = registry_environment().get(NO_INDEX, "").lower() in ("1", "true", "yes", "on")
    options = ["--no-index"] if without_index else []
    return [str(ensure_uv()), "pip", arguments[0], *options, "--python", str(python), *arguments[1:]]


def ensure_uv() -> Path:
    """Path of the pinned uv; makes `.venvs/bootstrap` where it is missing or out of date.

    Raises EnvironmentSetupError when this Python has no ensurepip, or pip cannot install.
    """
    home = ENVS_DIR / "bootstrap"
    lock = REQUIREMENTS / "bootstrap.txt"
    uv = home / "bin" / "uv"
    if uv.is_file() and is_current(home, [lock]):
        return uv
    if subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode:
        raise EnvironmentSetupError(
            "this Python cannot make virtual environments: the module ensurepip is missing; install it, e.g. apt-get "
            f"install python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        )
    log = RUN_DIR / "logs" / "setup-bootstrap.log"
    if run_logged([sys.executable, "-m", "venv", "--clear", str(home)], log, "making the bootstrap environment"):
        raise EnvironmentSetupError(f"python -m venv failed, see {shown(log)}")
    install = [
        str(home / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
        "--require-hashes",
        "-r",
        str(lock),
    ]
    if run_logged(install, log, "installing uv"):
        raise EnvironmentSetupError(f"pip could not install uv, see {shown(log)}")
    write_stamp(home, [lock])
    return uv
