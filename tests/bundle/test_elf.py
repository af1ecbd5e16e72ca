# SPDX-License-Identifier: Apache-2.0
"""Shared objects: the loader takes what we write, and what is read agrees with binutils."""

from __future__ import annotations

import _ctypes
import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.environments import elf
from tests.support.system_packages import needs
from tool_errors import EnvironmentSetupError

needs_compiler = needs("gcc", "libc6-dev", "binutils")


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own: a broken library would end this one."""
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("functions", [[], ["cufftExecC2C"], [f"cublasFunction{number}" for number in range(300)]])
def test_the_loader_finds_every_function(tmp_path: Path, functions: list[str]):
    library = tmp_path / "libcublas.so.12"
    elf.write(library, "VERSION", functions)
    # Versioned look-ups are what torch's libraries do.
    code = (
        "import ctypes, os, sys\n"
        "library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)\n"
        "process = ctypes.CDLL(None)\n"
        "process.dlvsym.restype = ctypes.c_void_p\n"
        "handle = ctypes.c_void_p(library._handle)\n"
        "for name in sys.argv[2:]:\n"
        "    assert getattr(library, name)() == 1\n"
        "    assert process.dlvsym(handle, name.encode(), b'VERSION'), name\n"
        "    assert not process.dlvsym(handle, name.encode(), b'OTHER'), name\n"
        "assert not hasattr(library, 'cublasUnknown')\n"
        "stack = next(line for line in open('/proc/self/maps') if '[stack]' in line)\n"
        "assert 'rw-p' in stack, 'the library made the stack executable'\n"
    )
    result = run(code, str(library), *functions)
    assert result.returncode == 0, (result.returncode, result.stderr)
    assert elf.asked(library) == elf.Asked([], {}, {}, "libcublas.so.12")


@needs_compiler
def test_the_loader_accepts_a_program_that_asks_for_the_version(tmp_path: Path):
    """A library that is linked against NVIDIA's asks for versions in its tables; glibc refuses to load it without
    them."""
    library, caller = tmp_path / "libnvshmem_host.so.3", tmp_path / "libtorch_nvshmem.so"
    elf.write(library, "NVSHMEM", ["nvshmem_malloc"])
    (tmp_path / "caller.c").write_text("int nvshmem_malloc(void); int call(void) { return nvshmem_malloc(); }\n")
    link = ["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", "-o", str(caller), str(tmp_path / "caller.c"), str(library)]
    subprocess.run(["gcc", *link], check=True)
    asked = elf.asked(caller)
    assert asked.needed[0] == library.name and asked.versions[library.name] == {"NVSHMEM"}
    assert asked.symbols["nvshmem_malloc"] == "NVSHMEM"
    code = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).call() != 1)"
    assert run(code, str(caller)).returncode == 0
    elf.write(library, "OTHER", ["nvshmem_malloc"])
    refused = run(code, str(caller))
    assert refused.returncode and "version `NVSHMEM' not found" in refused.stderr


@needs_compiler
def test_a_library_says_the_same_as_one_that_gcc_made(tmp_path: Path):
    (tmp_path / "source.c").write_text("int first(void) { return 1; }\nint second(void) { return 1; }\n")
    (tmp_path / "versions.map").write_text("ours.1 { global: first; second; local: *; };\n")
    told = []
    for folder in ("gcc", "ours"):
        (tmp_path / folder).mkdir()
        library = tmp_path / folder / "libsmall.so.1"
        if folder == "gcc":
            link = f"-Wl,--soname={library.name},--version-script={tmp_path}/versions.map"
            sources = ["-o", str(library), str(tmp_path / "source.c")]
            subprocess.run(["gcc", "-shared", "-nostdlib", "-fPIC", link, *sources], check=True)
        else:
            elf.write(library, "ours.1", ["first", "second"])
        symbols = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True)
        headers = subprocess.check_output(["objdump", "-p", library], text=True)
        functions = {tuple(line.split()[1:]) for line in symbols.splitlines()} - {("A", "ours.1")}
        told.append(
            (functions, re.findall(r"SONAME +(\S+)", headers), headers.partition("Version definitions:")[2].split())
        )
    assert told[0] == told[1] and told[0][1] == ["libsmall.so.1"] and len(told[0][0]) == 2


@needs_compiler
@pytest.mark.parametrize("library", [_ctypes.__file__, sys.executable])
def test_what_a_library_asks_for_agrees_with_binutils(library: str):
    asked = elf.asked(Path(library).resolve())
    headers = subprocess.check_output(["objdump", "-p", library], text=True)
    assert asked.needed == re.findall(r"NEEDED +(\S+)", headers) and asked.needed
    required = headers.partition("Version References:")[2]
    assert sorted(version for names in asked.versions.values() for version in names) == sorted(
        line.split()[3] for line in required.splitlines() if re.match(r" +0x", line)
    )
    listed = subprocess.check_output(["nm", "--dynamic", "--undefined-only", library], text=True)
    symbols = dict((word.split()[-1].partition("@")[::2]) for word in listed.splitlines())
    assert asked.symbols == {name: version or None for name, version in symbols.items()}


def test_what_a_library_asks_for_is_read_from_its_tables():
    needed, versions, symbols, _ = elf.asked(Path(_ctypes.__file__))
    assert any(name.startswith("libc.so") for name in needed)
    assert {"PyErr_SetString", "dlopen"} <= {symbol for symbol in symbols if hasattr(ctypes.pythonapi, symbol)}
    assert symbols["PyErr_SetString"] is None, "Python's symbols have no version"
    version = symbols["dlopen"]
    owners = [library for library, names in versions.items() if version in names]
    assert owners and set(owners) <= set(needed) and version and version.startswith("GLIBC_")


@pytest.mark.parametrize("content", [b"no library", elf.IDENTITY, elf.IDENTITY + bytes(40) + b"\xff" * 20])
def test_a_file_that_is_no_library_is_named(tmp_path: Path, content: bytes):
    (tmp_path / "libtorch.so").write_bytes(content)
    with pytest.raises(EnvironmentSetupError, match="libtorch.so is no shared object"):
        elf.asked(tmp_path / "libtorch.so")


@needs_compiler
@pytest.mark.parametrize(("processor", "named"), [("x86_64", "X86-64"), ("aarch64", "AArch64")])
def test_a_library_for_another_processor_is_one(tmp_path: Path, processor: str, named: str):
    """Only this machine's is loaded here; of the other, binutils read the same headers."""
    library = tmp_path / "libcublas.so.13"
    elf.write(library, "VERSION", ["cublasCreate_v2"], processor)
    header = subprocess.check_output(["readelf", "--wide", "--file-header", "--dyn-syms", library], text=True)
    assert re.search(rf"Machine: +.*{named}", header) and "cublasCreate_v2@@VERSION" in header
    assert elf.asked(library) == elf.Asked([], {}, {}, library.name)


def test_a_processor_that_has_no_code_is_refused(tmp_path: Path):
    with pytest.raises(EnvironmentSetupError, match="no code for riscv64; expected x86_64 or aarch64"):
        elf.write(tmp_path / "libsmall.so.1", "V", ["fine"], "riscv64")


def test_a_name_that_is_none_of_c_is_refused(tmp_path: Path):
    with pytest.raises(EnvironmentSetupError, match="'with blank' cannot be a function"):
        elf.write(tmp_path / "libsmall.so.1", "V", ["fine", "with blank"])
