# SPDX-License-Identifier: Apache-2.0
"""Environments whose wheels need a newer C library than their names say."""

from __future__ import annotations

import os
import platform

import pytest

from bundle.environments.libc import check_libc
from tool_errors import EnvironmentSetupError


@pytest.mark.parametrize(
    ("environment", "machine", "glibc", "refused"),
    [
        ("vlm", "aarch64", "glibc 2.36", True),
        ("vlm", "aarch64", "glibc 2.38", False),
        ("vlm", "aarch64", "glibc 2.39", False),
        ("vlm", "aarch64", None, False),
        ("vlm", "x86_64", "glibc 2.36", False),
        ("vlm-0.23", "aarch64", "glibc 2.34", False),
    ],
)
def test_an_older_c_library_is_refused_with_the_stack_that_runs(
    monkeypatch: pytest.MonkeyPatch, environment: str, machine: str, glibc: str | None, refused: bool
):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(os, "confstr", lambda name: glibc)
    if not refused:
        return check_libc(environment)
    with pytest.raises(EnvironmentSetupError, match=r"vlm: .* needs glibc 2\.38, .* has 2\.36; take stack 0\.23\.0"):
        check_libc(environment)


def test_this_machines_library_is_read():
    assert (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc 2.")
