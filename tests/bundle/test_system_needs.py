# SPDX-License-Identifier: Apache-2.0
"""What the environments need of the system: what is missing is said at once. tests/types/test_linked_libraries.py
compares the list with their files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bundle.environments import system, uv
from bundle.environments.setup import ENVIRONMENTS
from tests.support.paths import ROOT
from tool_errors import EnvironmentSetupError


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system without OpenMP and libnuma, whose programs lie in the folder that this returns."""
    there = set(system.LIBRARIES) - {"libgomp.so.1", "libnuma.so.1"}
    monkeypatch.setattr(system, "is_loadable", lambda name: name in there or (tmp_path / name).exists())
    monkeypatch.setattr(system, "RUN_DIR", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(folder: Path, name: str, lines: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)


def local_mode() -> list[system.Environment]:
    return [ENVIRONMENTS[name] for name in ("tools", "vlm", "parser")]


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt-get", "apt-get install -y --no-install-recommends libgomp1 libnuma1"),
        ("dnf", "dnf install -y --setopt=install_weak_deps=False libgomp numactl-libs"),
    ],
)
def test_all_that_is_missing_is_named_at_once(bare: Path, monkeypatch: pytest.MonkeyPatch, manager: str, command: str):
    program(bare, manager, "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentSetupError) as refused:
        system.ensure(local_mode())
    assert str(refused.value) == f"the system lacks libnuma.so.1, libgomp.so.1; run as root: {command}"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(EnvironmentSetupError, match=re.escape(f"run as root: {command}")):
        system.ensure(local_mode(), install=False)
    system.ensure([ENVIRONMENTS["tools"]], install=False)  # needs neither


def test_root_has_it_installed(bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """With lists of packages that are fetched first, as a new system has none."""
    program(
        bare,
        "apt-get",
        f"""if [ "$1" = update ]; then : > {bare}/lists; exit; fi
        [ -e {bare}/lists ] || {{ echo E: no lists; exit 100; }}
        case "$*" in *libgomp1*libnuma1*) : > {bare}/libgomp.so.1; : > {bare}/libnuma.so.1;; esac""",
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    system.ensure(local_mode())
    assert system.missing(local_mode()) == []
    said = capsys.readouterr().err
    assert "the system lacks libnuma.so.1, libgomp.so.1: apt-get install" in said and "apt-get update" in said


@pytest.mark.parametrize(
    ("lines", "message"),
    [("echo trying; echo E: broken; exit 100", "failed: E: broken"), ("exit 0", "even after")],
)
def test_an_installation_that_fails_ends_it(bare: Path, monkeypatch: pytest.MonkeyPatch, lines: str, message: str):
    program(bare, "apt-get", lines)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(EnvironmentSetupError, match=message):
        system.ensure(local_mode())


def test_a_system_without_a_package_manager_is_told_the_names(bare: Path):
    with pytest.raises(EnvironmentSetupError, match=r"lacks libnuma\.so\.1, libgomp\.so\.1; install the packages"):
        system.ensure(local_mode())


def test_the_images_install_what_the_list_says():
    script = (ROOT / "operations/bundle/image_build/install_system.sh").read_text()
    for stage, environments in (
        ("vlm", ("vlm", "vlm-0.23", "vlm-ascend")),
        ("parser", ("parser", "corpus")),
    ):
        apt, dnf = (set(words.split()) for words in re.findall(rf"(?m)^ +{stage}\) packages=\((.*)\) ;;", script))
        for name in environments:
            for library in ENVIRONMENTS[name].libraries:
                need = system.LIBRARIES[library]
                assert need.apt in apt and need.dnf in dnf, (stage, need)


def test_a_python_without_ensurepip_is_named(monkeypatch: pytest.MonkeyPatch, bare: Path):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    assert [need.dnf for need in system.missing(local_mode())] == ["python3", "numactl-libs", "libgomp"]
    assert [need.apt for need in system.missing([ENVIRONMENTS["tools"]])] == ["python3.11-venv"]


def test_another_python_makes_no_environment(monkeypatch: pytest.MonkeyPatch):
    """As on Debian 13, whose archive has no other: what works instead is named."""
    monkeypatch.setattr(system, "sys", SimpleNamespace(version_info=(3, 13, 5, "final", 0)))
    named = r"this is Python 3\.13\.5, .* 3\.11\. On Debian 12: .*Debian 13, .* no 3\.11.*--mode docker.* PYTHON "
    with pytest.raises(EnvironmentSetupError, match=named):
        system.ensure(local_mode())


def test_the_package_of_ensurepip_is_that_of_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Downloads of weights run on any Python from 3.9 on."""
    monkeypatch.setattr(uv, "ENVS_DIR", tmp_path)
    monkeypatch.setattr(uv, "sys", SimpleNamespace(version_info=(3, 10, 12), executable="python3.10"))
    monkeypatch.setattr(uv.subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 1))
    with pytest.raises(EnvironmentSetupError, match="apt-get install python3.10-venv"):
        uv.ensure_uv()
