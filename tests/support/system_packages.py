# SPDX-License-Identifier: Apache-2.0
"""Debian packages that tests need, from tests/system_packages.txt: what lacks one is skipped by the package's name."""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

TESTS = Path(__file__).resolve().parents[1]
FILE, CONFTEST = TESTS / "system_packages.txt", TESTS / "conftest.py"
PYTHONS_OWN = Path(os.__file__).parent
# What README's first command asks for, beside the packages that each Debian has; and the client of a container engine
# that answers.
ALWAYS_THERE = frozenset(("git", "python3", "python3.11", "docker"))
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
    import pytest  # the runner reads this module too, with a Python that has no packages

    lacking = missing(packages)
    return pytest.mark.skipif(bool(lacking), reason=f"needs {' '.join(lacking)} (apt-get install)")


def is_ours(frame: types.FrameType | None) -> bool:
    """Whether code of ours called ``subprocess``, and not a library's or Python's own."""
    # tests/conftest.py stands between, in tests that must start no service.
    while frame is not None and frame.f_code.co_filename in (subprocess.__file__, str(CONFTEST)):
        frame = frame.f_back
    place = Path(frame.f_code.co_filename) if frame is not None else PYTHONS_OWN
    return "site-packages" not in place.parts and not place.is_relative_to(PYTHONS_OWN)


def refuse_unnamed_programs() -> None:
    """From now on a test fails that starts a program of the system which its group does not name.

    Such a program is neither in a minimal Debian nor in `ALWAYS_THERE`, nor from a package of the group
    (tests/runner/groups.py), which scripts/test.sh hands over in TEST_PACKAGES. A run by hand has no group and checks
    nothing. What a library tries to start is its own affair: it does without, or the test fails on a bare machine.
    """
    packages = os.environ.get("TEST_PACKAGES")
    if packages is None:
        return
    known = programs()
    named = {found(program) for package in packages.split() for program in known[package]}
    start = subprocess.Popen  # before a test puts another in its place

    @functools.cache
    def allowed(path: str) -> bool:
        if not path.startswith(SYSTEM) or Path(path).name in ALWAYS_THERE or path in named:
            return True
        # /bin is a link to /usr/bin, and packages name either.
        owners = {line.partition(":")[0] for line in asked("--search", path, path.removeprefix("/usr"))}
        return not owners or any(
            asked("--show", "--showformat=${Priority}\n", owner) == ["required"] for owner in owners
        )

    def asked(*words: str) -> list[str]:
        if not shutil.which("dpkg-query"):  # no Debian: nothing is known of its packages
            return []
        with start(["dpkg-query", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            return process.communicate()[0].splitlines()

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "subprocess.Popen" and arguments[0] != "dpkg-query" and is_ours(sys._getframe(1)):
            path = shutil.which(str(arguments[0])) or ""
            assert allowed(path), f"{path} is started, but the group of this test names no package that brings it"

    sys.addaudithook(look)
