# SPDX-License-Identifier: Apache-2.0
"""The engine's programs: Debian packages of the release after bookworm, unpacked into a folder, nothing installed.

Bookworm's own engine (20.10) knows neither named build contexts nor `start_interval`. runc and iptables are bookworm's
and must be installed. Where the archive is, the machine's own apt configuration says.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

RELEASE = "trixie"
PACKAGES = ("docker.io", "docker-cli", "containerd", "docker-compose", "docker-buildx")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
INSTALLED = {"runc": "runc", "iptables": "iptables", "debootstrap": "debootstrap"}


class EngineError(Exception):
    """This machine cannot run an engine; the message says why."""


class FetchError(Exception):
    """Something could not be fetched or unpacked: a fault to mend, not a property of the machine."""


def missing_programs() -> list[str]:
    """Debian packages that must be installed before an engine can be unpacked and run.

    Raises EngineError on a system that is not Debian's.
    """
    if shutil.which("apt-get") is None or not Path(KEYRING).is_file():
        raise EngineError("no container engine answers, and one can be unpacked on Debian only")
    return [package for program, package in INSTALLED.items() if shutil.which(program) is None]


def archive() -> str:
    """Address of the Debian archive, as this machine's apt knows it."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = [line.rpartition("|")[2] for line in listed.splitlines() if line.startswith("Debian|Debian|")]
    if not found:
        raise FetchError("apt knows no Debian archive here (apt-get update was not run?)")
    return found[0]


def unpack(folder: Path) -> Path:
    """Fetch the packages and unpack them below `folder`; returns the root that holds usr/. Done once per folder."""
    root, scratch = folder / "root", folder / "apt"
    if (folder / "unpacked").is_file():
        return root
    for name in ("lists/partial", "cache/archives/partial", "debs"):
        (scratch / name).mkdir(parents=True, exist_ok=True)
    sources = scratch / "sources.list"
    # Only the lists of packages: where apt-file or AppStream are installed, apt would fetch their lists too.
    sources.write_text(f"deb [signed-by={KEYRING} target=Packages] {archive()} {RELEASE} main\n")
    apt = [
        "apt-get",
        "-q",
        "-o",
        f"Dir::Etc::sourcelist={sources}",
        "-o",
        "Dir::Etc::sourceparts=-",
        "-o",
        f"Dir::State::lists={scratch}/lists",
        "-o",
        f"Dir::Cache={scratch}/cache",
        "-o",
        "Acquire::Languages=none",
        "-o",
        "Acquire::Retries=3",
        "-o",
        "APT::Sandbox::User=root",
    ]
    update([*apt, "update"])
    run([*apt, "download", *PACKAGES], cwd=scratch / "debs")
    for package in (scratch / "debs").glob("*.deb"):
        run(["dpkg", "-x", str(package), str(root)])
    shutil.rmtree(scratch)
    (folder / "unpacked").touch()
    return root


def update(command: list[str]) -> None:
    """Fetch the lists. A mirror in the middle of its own update hands out lists that do not match: asked again."""
    for _ in range(2):
        try:
            return run(command)
        except FetchError:
            time.sleep(30)
    run(command)


def run(command: list[str], cwd: Path | None = None) -> None:
    """Run a command quietly; raises FetchError with its last line."""
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode:
        raise FetchError(f"{' '.join(command[:1] + command[-3:])}: {(result.stderr or result.stdout).strip()[-500:]}")
