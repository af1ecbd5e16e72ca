# SPDX-License-Identifier: Apache-2.0
"""The small libraries in the place of CUDA's: the loader takes them, and what torch is linked against is all there."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.image_build import cuda_stubs
from tests.support.paths import ROOT
from tests.support.system_packages import needs
from tool_errors import EnvironmentSetupError

LOCK = ROOT / "config/requirements/vlm.txt"


needs_compiler = needs("gcc", "binutils")


@needs_compiler
@pytest.mark.parametrize("functions", [[], ["cufftExecC2C"], [f"cublasFunction{number}" for number in range(300)]])
def test_the_loader_finds_every_function(tmp_path: Path, functions: list[str]):
    library = tmp_path / "libcublas.so.12"
    cuda_stubs.compile_library(library, "VERSION", functions)
    # In a process of its own: a broken library would end this one. Versioned look-ups are what torch's libraries do.
    code = (
        "import ctypes, os, sys\n"
        "library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)\n"
        "process = ctypes.CDLL(None)\n"
        "process.dlvsym.restype = ctypes.c_void_p\n"
        "for name in sys.argv[2:]:\n"
        "    assert getattr(library, name)() == 1\n"
        "    assert process.dlvsym(ctypes.c_void_p(library._handle), name.encode(), b'VERSION'), name\n"
        "assert not hasattr(library, 'cublasUnknown')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(library), *functions], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, (result.returncode, result.stderr)


@needs_compiler
def test_the_loader_accepts_a_program_that_asks_for_the_version(tmp_path: Path):
    """A library that is linked against NVIDIA's asks for versions in its tables; glibc refuses to load it without
    them."""
    stub, caller = tmp_path / "libnvshmem_host.so.3", tmp_path / "libtorch_nvshmem.so"
    cuda_stubs.compile_library(stub, "NVSHMEM", ["nvshmem_malloc"])
    (tmp_path / "caller.c").write_text("int nvshmem_malloc(void); int call(void) { return nvshmem_malloc(); }\n")
    link = ["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", "-o", str(caller), str(tmp_path / "caller.c"), str(stub)]
    subprocess.run(["gcc", *link], check=True)
    asked = cuda_stubs.expected(caller)
    assert asked.needed[0] == stub.name and asked.versions[stub.name] == {"NVSHMEM"}
    assert asked.symbols["nvshmem_malloc"] == "NVSHMEM"

    def load() -> subprocess.CompletedProcess[str]:
        code = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).call() != 1)"
        return subprocess.run([sys.executable, "-c", code, str(caller)], capture_output=True, text=True, check=False)

    assert load().returncode == 0
    cuda_stubs.compile_library(stub, "OTHER", ["nvshmem_malloc"])
    refused = load()
    assert refused.returncode and "version `NVSHMEM' not found" in refused.stderr


@needs_compiler
def test_a_file_that_is_no_library_is_named(tmp_path: Path):
    (tmp_path / "libtorch.so").write_text("no library")
    with pytest.raises(EnvironmentSetupError, match="objdump -p: .*libtorch.so"):
        cuda_stubs.expected(tmp_path / "libtorch.so")


@needs_compiler
def test_what_a_library_expects_is_read_from_its_tables():
    needed, versions, symbols = cuda_stubs.expected(Path(_ctypes.__file__))
    assert any(name.startswith("libc.so") for name in needed)
    assert {"PyErr_SetString", "dlopen"} <= {symbol for symbol in symbols if hasattr(ctypes.pythonapi, symbol)}
    assert symbols["PyErr_SetString"] is None, "Python's symbols have no version"
    version = symbols["dlopen"]
    owners = [library for library, names in versions.items() if version in names]
    assert owners and set(owners) <= set(needed) and version and version.startswith("GLIBC_")


@needs_compiler
def test_functions_are_shared_out_among_the_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A library gets its own functions only, one that is there is left alone, and a second call writes nothing."""
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/lib/libtorch_cuda.so").touch()
    (tmp_path / "nvidia/nccl/lib").mkdir(parents=True)
    (tmp_path / "nvidia/nccl/lib/libnccl.so.2").touch()
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
    asked = cuda_stubs.Expected(sonames, versions, {**bare, **blas, **shmem, "dlopen": "GLIBC_2.34"})
    monkeypatch.setattr(cuda_stubs, "expected", lambda library: asked)
    assert list(cuda_stubs.wanted(tmp_path / "torch")) == [
        ("libcublas.so.12", "libcublas.so.12", ["cublasCreate_v2"]),
        ("libcublasLt.so.12", "libcublasLt.so.12", ["cublasLtMatmul"]),
        ("libcusparse.so.12", "libcusparse.so.12", ["cusparseCreate"]),
        ("libnccl.so.2", "libnccl.so.2", ["ncclSend"]),
        ("libnvshmem_host.so.3", "NVSHMEM", ["nvshmem_malloc", "put"]),
    ]
    (tmp_path / "torch/version.py").write_text("cuda: Optional[str] = '12.8'\n")
    assert cuda_stubs.write(tmp_path, tmp_path) == [
        "libcublas.so.12",
        "libcublasLt.so.12",
        "libcusparse.so.12",
        "libnvshmem_host.so.3",
    ]
    assert cuda_stubs.write(tmp_path, tmp_path) == []


def test_two_versions_of_one_library_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libtorch_cuda.so").touch()
    asked = cuda_stubs.Expected(
        ["libnccl.so.2"], {"libnccl.so.2": {"ONE", "TWO"}}, {"ncclSend": "ONE", "ncclRecv": "TWO"}
    )
    monkeypatch.setattr(cuda_stubs, "expected", lambda library: asked)
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


@pytest.mark.parametrize("line", ["cuda: Optional[str] = None", "cuda = None"])
def test_a_cpu_build_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str):
    """As the wheels for aarch64 are; their image has no compiler."""
    torch = tmp_path / "torch"
    (torch / "lib").mkdir(parents=True)
    (torch / "lib/libtorch.so").write_bytes(b"never looked at")
    (torch / "version.py").write_text(f"debug = False\n{line}\nhip: Optional[str] = None\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cuda_stubs.write(tmp_path, tmp_path / "stubs") == []
    (torch / "version.py").write_text("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n")
    with pytest.raises(EnvironmentSetupError, match="objdump is missing"):
        cuda_stubs.write(tmp_path, tmp_path / "stubs")
