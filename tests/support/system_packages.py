# SPDX-License-Identifier: Apache-2.0
"""Debian packages that tests need, from tests/system_packages.txt: what lacks one is skipped by the package's name."""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[1] / "system_packages.txt"
# Programs of a minimal Debian, of README's first command, and of a container engine that answers.
ALWAYS_THERE = frozenset(
    "apt-get bash cat chmod chroot cp dash date df docker dpkg dpkg-deb dpkg-query echo env false find git grep head id"
    " kill ldconfig ldd ln ls mkdir mkfs.ext4 mknod mount mv nice nproc nsenter prlimit ps python3 python3.11 rm sed"
    " setpriv sh sleep stat tail tar taskset test timeout touch tr true truncate umount uname unshare wc xargs".split()
)
SYSTEM = ("/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/")
# Where Debian keeps programs for root, which are not on everybody's PATH.
SBIN = "/usr/sbin:/sbin"


def programs() -> dict[str, list[str]]:
    """Package -> the program, or the pattern of files, that shows that it is installed; and its further programs."""
    lines = (line.partition("#")[0].split() for line in FILE.read_text().splitlines())
    return {words[0]: words[1:] for words in lines if words}


def signs() -> dict[str, str]:
    """Package -> what shows that it is installed."""
    return {package: words[0] for package, words in programs().items()}


def found(sign: str) -> str | None:
    """The path of a program, or of the last file that matches a pattern; None where there is none."""
    if sign.startswith("/"):
        return max(glob.glob(sign), default=None)
    return shutil.which(sign) or shutil.which(sign, path=SBIN)


def missing(packages: Iterable[str]) -> list[str]:
    """Those of the packages that are not installed."""
    known = signs()
    return [package for package in packages if not found(known[package])]


def needs(*packages: str) -> pytest.MarkDecorator:
    """The mark of a test that is skipped where one of the packages is not installed."""
    lacking = missing(packages)
    return pytest.mark.skipif(bool(lacking), reason=f"needs {' '.join(lacking)} (apt-get install)")


def refuse_unnamed_programs() -> None:
    """From now on a test fails that starts a program of the system which its group does not name.

    Such a program is neither in `ALWAYS_THERE` nor from a package of the group (tests/runner/groups.py), which
    scripts/test.sh hands over in TEST_PACKAGES. A run by hand has no group and checks nothing.
    """
    packages = os.environ.get("TEST_PACKAGES")
    if packages is None:
        return
    known = programs()
    named = {found(program) for package in packages.split() for program in known[package]}

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "subprocess.Popen":
            path = shutil.which(str(arguments[0])) or ""
            allowed = not path.startswith(SYSTEM) or Path(path).name in ALWAYS_THERE or path in named
            assert allowed, f"{path} is started, but the group of this test names no package that brings it"

    sys.addaudithook(look)
