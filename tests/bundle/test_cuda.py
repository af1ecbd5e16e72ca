# SPDX-License-Identifier: Apache-2.0
"""CUDA's large libraries stay away, and small ones with what torch is linked against take their place."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from bundle.environments import cuda, elf
from bundle.environments.environment import Environment, locked
from tests.support.paths import ROOT
from tool_errors import EnvironmentSetupError

LOCK = ROOT / "config/requirements/vlm.txt"


def test_functions_are_shared_out_among_the_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A library gets its own functions only."""
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/lib/libtorch_cuda.so").touch()
    bare = dict.fromkeys(("cusparseLtInit", "cusparseCreate", "ncclSend", "cudaMalloc"))
    blas = {"cublasCreate_v2": "libcublas.so.12", "cublasLtMatmul": "libcublasLt.so.12"}
    # A version with a name of its own, and a function that no rule of names would find.
    shmem = {"nvshmem_malloc": "NVSHMEM", "put": "NVSHMEM"}
    versions = {name: {name} for name in blas.values()} | {
        "libnvshmem_host.so.3": {"NVSHMEM"},
        "libc.so.6": {"GLIBC_2.34"},
    }
    sonames = [
        "libcublas.so.12",
        "libcublasLt.so.12",
        "libcusparse.so.12",
        "libnccl.so.2",
        "libnvshmem_host.so.3",
        "libcudart.so.12",
        "libc.so.6",
    ]
    asked = elf.Asked(sonames, versions, {**bare, **blas, **shmem, "dlopen": "GLIBC_2.34"}, None)
    monkeypatch.setattr(cuda.elf, "asked", lambda library: asked)
    assert list(cuda.wanted(tmp_path / "torch")) == [
        ("libcublas.so.12", "libcublas.so.12", ["cublasCreate_v2"]),
        ("libcublasLt.so.12", "libcublasLt.so.12", ["cublasLtMatmul"]),
        ("libcusparse.so.12", "libcusparse.so.12", ["cusparseCreate"]),
        ("libnccl.so.2", "libnccl.so.2", ["ncclSend"]),
        ("libnvshmem_host.so.3", "NVSHMEM", ["nvshmem_malloc", "put"]),
    ]
    (tmp_path / "torch/version.py").write_text("cuda: Optional[str] = '12.8'\n")
    written = cuda.write(tmp_path)
    assert written == [name for name, _, _ in cuda.wanted(tmp_path / "torch")]
    folder = tmp_path / "nvidia/nccl/lib"
    assert sorted(path.name for path in folder.iterdir()) == sorted(written)
    # A file of the installer's cache, of which the environment has a link, is not written to.
    cached = tmp_path / "cached"
    cached.write_text("NVIDIA's")
    (folder / written[0]).unlink()
    (folder / written[0]).hardlink_to(cached)
    assert cuda.write(tmp_path) == written and cached.read_text() == "NVIDIA's"
    cuda.remove(tmp_path)
    assert not folder.exists()


def test_two_versions_of_one_library_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libtorch_cuda.so").touch()
    asked = elf.Asked(["libnccl.so.2"], {"libnccl.so.2": {"ONE", "TWO"}}, {"ncclSend": "ONE", "ncclRecv": "TWO"}, None)
    monkeypatch.setattr(cuda.elf, "asked", lambda library: asked)
    with pytest.raises(EnvironmentSetupError, match="libnccl.so.2 for the versions ONE, TWO; expected one"):
        list(cuda.wanted(tmp_path))


def test_a_lock_keeps_everything_else():
    whole, lean = LOCK.read_text(), cuda.without_cuda(LOCK.read_text())
    gone = set(re.findall(r"(?m)^([\w-]+)==", whole)) - set(re.findall(r"(?m)^([\w-]+)==", lean))
    assert {"nvidia-cudnn-cu12", "nvidia-cublas-cu12"} <= gone and all(name.startswith("nvidia-") for name in gone)
    # What torch calls to find out that there is no GPU.
    assert "nvidia-cuda-runtime-cu12==" in lean and "nvidia-cuda-cupti-cu12==" in lean
    assert lean.count("--hash") < whole.count("--hash") and re.search(r"(?m)^torch==.*\\\n    --hash", lean)
    assert os.linesep + "    --hash" in lean and not re.search(r"(?m)^nvidia-cudnn", lean)


def test_an_environment_for_a_gpu_has_the_whole_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bundle.environments.environment.ENVS_DIR", tmp_path)
    environment = Environment("reference")
    assert "nvidia-cudnn" not in locked(environment)
    environment.home.mkdir()
    environment.cuda.touch()
    assert locked(environment) == environment.lock.read_text() and "nvidia-cudnn" in locked(environment)


def test_nvidias_own_libraries_are_not_removed(tmp_path: Path):
    library = tmp_path / cuda.FOLDER / "libcublas.so.12"
    library.parent.mkdir(parents=True)
    library.touch()
    (tmp_path / "nvidia_cublas_cu12-12.8.4.1.dist-info").mkdir()
    (tmp_path / "nvidia_nvtx_cu12-12.8.90.dist-info").mkdir()
    cuda.remove(tmp_path)
    assert library.exists()
    (tmp_path / "nvidia_cublas_cu12-12.8.4.1.dist-info").rmdir()
    cuda.remove(tmp_path)
    assert not library.exists()


@pytest.mark.parametrize("line", ["cuda: Optional[str] = None", "cuda = None"])
def test_a_cpu_build_needs_none(tmp_path: Path, line: str):
    """As the wheels for aarch64 are."""
    torch = tmp_path / "torch"
    (torch / "lib").mkdir(parents=True)
    (torch / "lib/libtorch.so").write_bytes(b"never looked at")
    (torch / "version.py").write_text(f"debug = False\n{line}\nhip: Optional[str] = None\n")
    assert cuda.write(tmp_path) == [] and not (tmp_path / "nvidia").exists()
    (torch / "version.py").write_text("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n")
    with pytest.raises(EnvironmentSetupError, match="libtorch.so is no shared object"):
        cuda.write(tmp_path)
