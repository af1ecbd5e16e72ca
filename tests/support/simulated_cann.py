# SPDX-License-Identifier: Apache-2.0
"""Simulated CANN libraries, to which torch_npu and vllm-ascend link: the real wheels load where there is no NPU.

What is simulated: every function of CANN, ATB and HCCL, as one that returns 0 ("success, no devices") and does
nothing. What is real: torch_npu itself, and the extension of vllm-ascend: the schemas of their operators, their shape
functions for the `meta` device.
What this cannot show: whether a kernel accepts these shapes on a device, its rounding, its speed, its memory.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

# Sonames that libraries of torch_npu, or below of vllm-ascend, name as needed, or open when they are imported.
LIBRARIES = (
    "ascendcl",
    "hccl",
    "ge_runner",
    "graph",
    "acl_op_compiler",
    "acl_tdt_channel",
    "ascend_protobuf",
    "fmk_parser",
    "opapi",
    "cust_opapi",
    "atb",
    "nnopbase",
    "register",
    "platform",
    "ascendalog",
    "runtime",
    "error_manager",
    "profapi",
    "ge_common_base",
    "unified_dlog",
    "mmpa",
    "ascend_dump",
    "c_sec",
)
# C functions of ACL, HCCL, the runtime, the profiler and the log, and of CANN's library of bounded copies; C++ names
# (mangled) in the namespaces of the graph engine, of ATB, and of what tells a chip's sizes.
CANN_SYMBOL = re.compile(r"^(acl|Hccl|Msprof|rt[A-Z]|Dlog|CheckLog|mm[A-Z]|_ZT?[A-Z]*N?K?(2ge|3atb|2fe)|[a-z]+_s$)")
# The one that does not return 0: vllm-ascend's extension makes a text of it when it is loaded.
CHIP = "aclrtGetSocName"
# The libraries of a wheel that are linked to CANN, of vllm-ascend the first two. vllm-ascend 0.11 imports torchair, a
# graph mode that we do not use.
LINKED = ("vllm_ascend_C*.so", "libvllm*.so", "_C*.so", "lib/*.so", "dynamo/torchair/core/*.so")


def undefined_symbols(library: Path) -> set[str]:
    """Names that a shared object expects from others."""
    listing = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1].partition("@")[0] for line in listing.splitlines() if line.strip()}


def build(torch_npu: Path, folder: Path) -> int:
    """Build the libraries for the wheel unpacked at ``torch_npu``; returns how many symbols they define."""
    return build_for([torch_npu], folder)


def build_for(wheels: list[Path], folder: Path) -> int:
    """Build the libraries that serve each of these wheels, unpacked; returns how many symbols they define."""
    libraries = [path for wheel in wheels for pattern in LINKED for path in wheel.glob(pattern)]
    wanted = sorted(name for name in set().union(*map(undefined_symbols, libraries)) if CANN_SYMBOL.match(name))
    functions = "".join(f"long {name}(void) {{ return 0; }}\n" for name in wanted if name != CHIP)
    functions += f'const char *{CHIP}(void) {{ return "Ascend910_9391"; }}\n'
    for name in LIBRARIES:
        # Functions are found wherever they are defined, so one library holds them all.
        build_library(folder / f"lib{name}.so", functions if name == LIBRARIES[0] else "")
    return len(wanted)


def build_library(library: Path, source: str) -> None:
    """Compile C source to a shared object whose soname is its file's name."""
    command = ["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{library.name}", "-o", str(library), "-x", "c", "-"]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)


def load(folder: Path) -> None:
    """Load them into this process; the loader then takes them for what torch_npu asks for by soname."""
    for name in LIBRARIES:
        ctypes.CDLL(str(folder / f"lib{name}.so"), mode=ctypes.RTLD_GLOBAL)
