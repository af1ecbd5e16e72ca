# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for CUDA's libraries: the loader takes them, and what torch is linked against is all there."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from bundle import cuda_stubs
from bundle.errors import EnvironmentSetupError

LOCK = ROOT / "config/requirements/torch-vlm.txt"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the stand-ins hold x86-64 code")
@pytest.mark.parametrize("functions", [[], ["cufftExecC2C"], [f"cublasFunction{number}" for number in range(300)]])
def test_the_loader_finds_every_function(tmp_path: Path, functions: list[str]):
    library = tmp_path / "libcublas.so.12"
    library.write_bytes(cuda_stubs.shared_object(library.name, "VERSION", functions))
    # In a process of its own: a broken library would end this one. Versioned look-ups are what torch's libraries do.
    code = ("import ctypes, os, sys\n"
            "library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)\n"
            "process = ctypes.CDLL(None)\n"
            "process.dlvsym.restype = ctypes.c_void_p\n"
            "for name in sys.argv[2:]:\n"
            "    assert getattr(library, name)() == 1\n"
            "    assert process.dlvsym(ctypes.c_void_p(library._handle), name.encode(), b'VERSION'), name\n"
            "assert not hasattr(library, 'cublasUnknown')\n")
    result = subprocess.run([sys.executable, "-c", code, str(library), *functions], capture_output=True, text=True, check=False)
    assert result.returncode == 0, (result.returncode, result.stderr)


def test_what_a_library_expects_is_read_from_its_tables():
    needed, symbols = cuda_stubs.expected(Path(_ctypes.__file__))
    assert any(name.startswith("libc.so") for name in needed)
    assert {"PyErr_SetString", "dlopen"} <= {symbol for symbol in symbols if hasattr(ctypes.pythonapi, symbol)}
    assert symbols["PyErr_SetString"] is None, "Python's symbols have no version"
    library, version = symbols["dlopen"]
    assert library in needed and version.startswith("GLIBC_")


def test_functions_are_shared_out_among_the_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A library gets its own functions only, one that is there is left alone, and a second call writes nothing."""
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/lib/libtorch_cuda.so").touch()
    (tmp_path / "nvidia/nccl/lib").mkdir(parents=True)
    (tmp_path / "nvidia/nccl/lib/libnccl.so.2").touch()
    bare = dict.fromkeys(("cusparseLtInit", "cusparseCreate", "ncclSend", "cudaMalloc"))
    blas = {"cublasCreate_v2": ("libcublas.so.12", "libcublas.so.12"), "cublasLtMatmul": ("libcublasLt.so.12", "libcublasLt.so.12")}
    # A version with a name of its own, and functions that no rule of names would find.
    shmem = {"nvshmem_malloc": ("libnvshmem_host.so.3", "NVSHMEM"), "nvshmemx_put": ("libnvshmem_host.so.3", "NVSHMEM")}
    sonames = ["libcublas.so.12", "libcublasLt.so.12", "libcusparse.so.12", "libnccl.so.2", "libnvshmem_host.so.3",
               "libcudart.so.12", "libc.so.6"]
    monkeypatch.setattr(cuda_stubs, "expected", lambda library: cuda_stubs.Expected(sonames, {**bare, **blas, **shmem}))
    assert list(cuda_stubs.wanted(tmp_path / "torch")) == [
        ("libcublas.so.12", "libcublas.so.12", ["cublasCreate_v2"]),
        ("libcublasLt.so.12", "libcublasLt.so.12", ["cublasLtMatmul"]),
        ("libcusparse.so.12", "libcusparse.so.12", ["cusparseCreate"]), ("libnccl.so.2", "libnccl.so.2", ["ncclSend"]),
        ("libnvshmem_host.so.3", "NVSHMEM", ["nvshmem_malloc", "nvshmemx_put"])]
    assert cuda_stubs.write(tmp_path) == ["libcublas.so.12", "libcublasLt.so.12", "libcusparse.so.12", "libnvshmem_host.so.3"]
    assert cuda_stubs.write(tmp_path) == []


def test_two_versions_of_one_library_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libtorch_cuda.so").touch()
    symbols = {"ncclSend": ("libnccl.so.2", "ONE"), "ncclRecv": ("libnccl.so.2", "TWO")}
    monkeypatch.setattr(cuda_stubs, "expected", lambda library: cuda_stubs.Expected(["libnccl.so.2"], symbols))
    with pytest.raises(EnvironmentSetupError, match="libnccl.so.2 for the versions ONE, TWO; expected one"):
        list(cuda_stubs.wanted(tmp_path))


def test_a_lock_keeps_everything_else():
    whole, lean = LOCK.read_text(), cuda_stubs.without_cuda(LOCK.read_text())
    gone = set(re.findall(r"(?m)^([\w-]+)==", whole)) - set(re.findall(r"(?m)^([\w-]+)==", lean))
    assert {"nvidia-cudnn-cu12", "nvidia-cublas-cu12"} <= gone and all(name.startswith("nvidia-") for name in gone)
    # What torch calls to find out that there is no GPU.
    assert "nvidia-cuda-runtime-cu12==" in lean and "nvidia-cuda-cupti-cu12==" in lean
    assert lean.count("--hash") < whole.count("--hash") and re.search(r"(?m)^torch==.*\\\n    --hash", lean)
    assert os.linesep + "    --hash" in lean and not re.search(r"(?m)^nvidia-cudnn", lean)
