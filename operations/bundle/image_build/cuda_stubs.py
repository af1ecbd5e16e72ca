# SPDX-License-Identifier: Apache-2.0
"""Small libraries in the place of NVIDIA's large ones, which the plain x86-64 build of torch is linked against.

No CPU and no NPU calls a function of these libraries, but the loader refuses torch without them. A C compiler makes one
library for each, with the functions and the symbol version that torch's own libraries ask for (decision 0406).
Needs gcc and binutils.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tool_errors import EnvironmentSetupError

# NVIDIA's packages that are left out. The small ones (the CUDA runtime, CUPTI) are installed.
PACKAGE = re.compile(
    r"^nvidia-(cublas|cuda-nvrtc|cudnn|cufft|curand|cusolver|cusparse|cusparselt|nccl|nvjitlink|nvshmem)-cu\d+=="
)
# Library -> how its functions begin. Only needed for functions that torch's libraries ask for without a version.
PREFIXES = {
    "libcublasLt": "cublasLt",
    "libcublas": "cublas(?!Lt)",
    "libcudnn": "cudnn",
    "libcufft": "cufft",
    "libcurand": "curand",
    "libcusolver": "cusolver",
    "libcusparseLt": "cusparseLt",
    "libcusparse": "cusparse(?!Lt)",
    "libnccl": "p?nccl",
    "libnvshmem_host": "nvshmem",
}
# Where torch's libraries look for NVIDIA's (their RPATH), seen from site-packages.
FOLDER = Path("nvidia/cublas/lib")
# 1 means "not initialised" in each of these libraries.
FUNCTION = "int {name}(void) {{ return 1; }}\n"
# In torch/version.py: the CUDA that torch was built with, None for a CPU build, as all wheels for aarch64 are.
BUILT_WITH = re.compile(r"^cuda\b.*= *(?P<version>None|'[\d.]+') *$", re.MULTILINE)
SYMBOL = re.compile(r"^\s+[Uwv] (?P<name>[^@\s]+)(?:@(?P<version>\S+))?$", re.MULTILINE)


class Expected(NamedTuple):
    """What a shared object expects of others."""

    needed: list[str]  # libraries
    versions: dict[str, set[str]]  # library -> the symbol versions that are asked of it
    symbols: dict[str, str | None]  # undefined symbol -> the version that is asked for, None without one


def without_cuda(lock: str) -> str:
    """The text of a lock without the packages of `PACKAGE`, each of which is a line and the hashes below it."""
    return "".join(entry for entry in re.split(r"(?m)^(?=\S)", lock) if not PACKAGE.match(entry))


def output(*command: str) -> str:
    """What a program of binutils or the compiler prints. Raises EnvironmentSetupError with its last line."""
    try:
        # objdump translates the words that are looked for.
        env = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EnvironmentSetupError(
            f"{command[0]} is missing, which the libraries in the place of CUDA's are made with; install gcc and "
            "binutils"
        ) from error
    if done.returncode:
        raise EnvironmentSetupError(f"{' '.join(command[:2])}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return done.stdout


def expected(library: Path) -> Expected:
    """What the dynamic section, the version references and the symbol table of a shared object ask for."""
    needed: list[str] = []
    versions: dict[str, set[str]] = {}
    owner = ""
    for line in output("objdump", "-p", str(library)).splitlines():
        words = line.split()
        if words[:1] == ["NEEDED"]:
            needed.append(words[1])
        elif words[:2] == ["required", "from"]:
            owner = words[2].rstrip(":")
        elif owner and len(words) == 4 and words[0].startswith("0x"):  # hash, flags, number, name
            versions.setdefault(owner, set()).add(words[3])
    listed = output("nm", "--dynamic", "--undefined-only", str(library))
    return Expected(needed, versions, {match["name"]: match["version"] for match in SYMBOL.finditer(listed)})


def compile_library(target: Path, version: str, functions: list[str]) -> None:
    """Compile a shared object, named like its file, that defines `functions`, all of one symbol version."""
    exported = f"global: {'; '.join(functions)};" if functions else ""
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder) / "stubs.c", Path(folder) / "versions.map"
        source.write_text("".join(FUNCTION.format(name=name) for name in functions))
        script.write_text(f"{version} {{ {exported} local: *; }};\n")
        link = f"-Wl,--soname={target.name},--version-script={script}"
        output("gcc", "-shared", "-nostdlib", "-fPIC", "-O1", "-o", str(target), link, str(source))


def wanted(torch: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Of each library that is left out: its name, its symbol version, and the functions that torch's libraries call.

    Raises EnvironmentSetupError where they ask one library for several versions.
    """
    found = [expected(library) for library in sorted((torch / "lib").glob("*.so"))]
    symbols = {symbol for asked in found for symbol in asked.symbols.items()}
    for soname in sorted({name for asked in found for name in asked.needed}):
        prefix = PREFIXES.get(soname.partition(".so")[0])
        if prefix is None:
            continue
        versions = set().union(*(asked.versions.get(soname, set()) for asked in found)) or {soname}
        if len(versions) > 1:
            raise EnvironmentSetupError(
                f"{torch}: asks {soname} for the versions {', '.join(sorted(versions))}; expected "
                "one; take a CPU build of torch: TORCH_CPU_INDEX_URL"
            )
        functions = {
            name
            for name, version in symbols
            if (version in versions if version else re.match(rf"{prefix}(?![a-z])", name))
        }
        yield soname, versions.pop(), sorted(functions)


def is_cpu_build(torch: Path) -> bool:
    """Whether torch says that it was built without CUDA."""
    found = BUILT_WITH.search((torch / "version.py").read_text())
    return found is not None and found["version"] == "None"


def write(site_packages: Path, target: Path) -> list[str]:
    """Write the libraries that `site_packages` lacks below `target`, laid out as site-packages is; returns their names.

    Nothing is written, and no compiler is needed, where torch is a CPU build.
    """
    written: list[str] = []
    if is_cpu_build(site_packages / "torch"):
        return written
    for soname, version, functions in wanted(site_packages / "torch"):
        if not any((site_packages / "nvidia").glob(f"*/lib/{soname}")):
            (target / FOLDER).mkdir(parents=True, exist_ok=True)
            compile_library(target / FOLDER / soname, version, functions)
            written.append(soname)
    return written
