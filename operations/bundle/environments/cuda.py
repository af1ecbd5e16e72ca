# SPDX-License-Identifier: Apache-2.0
"""Small libraries in the place of NVIDIA's large ones, which the plain builds of torch are linked against: those for
x86-64, and from 2.11 on those for aarch64.

No CPU and no NPU calls a function of these libraries, but the loader refuses torch without them. So each becomes a file
of some kilobytes with the functions and the symbol version that torch's own libraries ask for (decision 0406).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from bundle.environments import elf
from tool_errors import EnvironmentSetupError

# NVIDIA's packages that are left out. The small ones (the CUDA runtime, CUPTI) are installed. Those of CUDA 13 have
# mostly no CUDA in their names.
PACKAGE = re.compile(
    r"^nvidia-(cublas|cuda-nvrtc|cudnn|cufft|cufile|curand|cusolver|cusparse|cusparselt|nccl|nvjitlink|nvshmem)(-cu\d+)?=="
)
# Library -> how its functions begin. Only needed for functions that torch's libraries ask for without a version.
PREFIXES = {
    "libcublasLt": "cublasLt",
    "libcublas": "cublas(?!Lt)",
    "libcudnn": "cudnn",
    "libcufft": "cufft",
    "libcufile": "cuFile",
    "libcurand": "curand",
    "libcusolver": "cusolver",
    "libcusparseLt": "cusparseLt",
    "libcusparse": "cusparse(?!Lt)",
    "libnccl": "p?nccl",
    "libnvrtc": "nvrtc",
    "libnvshmem_host": "nvshmem",
}
# Where torch's libraries look for NVIDIA's (their RPATH), with CUDA 12 as with 13, seen from site-packages.
FOLDER = Path("nvidia/nccl/lib")
# In torch/version.py: the CUDA that torch was built with, None for a CPU build, as older wheels for aarch64 are.
BUILT_WITH = re.compile(r"^cuda\b.*= *(?P<version>None|'[\d.]+') *$", re.MULTILINE)


def without_cuda(lock: str) -> str:
    """The text of a lock without the packages of `PACKAGE`, each of which is a line and the hashes below it."""
    return "".join(entry for entry in re.split(r"(?m)^(?=\S)", lock) if not PACKAGE.match(entry))


def wanted(torch: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Of each library that is left out: its name, its symbol version, and the functions that torch's libraries call.

    Raises EnvironmentSetupError where they ask one library for several versions.
    """
    found = [elf.asked(library) for library in sorted((torch / "lib").glob("*.so"))]
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


def is_left_out(site_packages: Path) -> bool:
    """Whether none of NVIDIA's large packages is installed."""
    return not any(
        PACKAGE.match(f"{path.name.split('-')[0].replace('_', '-')}==")
        for path in site_packages.glob("nvidia_*.dist-info")
    )


def write(site_packages: Path) -> list[str]:
    """Write the libraries that an environment lacks into it; returns their names.

    Nothing is written where torch is a CPU build.
    """
    written: list[str] = []
    if is_cpu_build(site_packages / "torch"):
        return written
    folder = site_packages / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for soname, version, functions in wanted(site_packages / "torch"):
        elf.write(folder / soname, version, functions)
        written.append(soname)
    return written


def remove(site_packages: Path) -> None:
    """Remove what `write` wrote, before NVIDIA's own libraries are installed."""
    if is_left_out(site_packages):
        shutil.rmtree(site_packages / FOLDER, ignore_errors=True)
