# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the CANN libraries that torch_npu links to, so that the real wheel loads where there is no NPU.

What is simulated: every function of CANN, ATB and HCCL, as one that returns 0 ("success, no devices") and does
nothing. What is real: torch_npu itself: the schemas of its operators, their shape functions for the `meta` device.
What this cannot show: whether a kernel accepts these shapes on a device, its rounding, its speed, its memory.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

# Sonames that torch_npu's libraries name as needed, or open when they are imported.
LIBRARIES = (
    "ascendcl", "hccl", "ge_runner", "graph", "acl_op_compiler", "acl_tdt_channel", "opapi", "cust_opapi", "atb",
    "nnopbase",
)  # fmt: skip
# C functions of ACL and HCCL; C++ names (mangled) in the namespaces of the graph engine and of ATB.
CANN_SYMBOL = re.compile(r"^(acl|Hccl|_ZT?[A-Z]*N?K?(2ge|3atb))")


def undefined_symbols(library: Path) -> set[str]:
    """Names that a shared object expects from others."""
    listing = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1].partition("@")[0] for line in listing.splitlines() if line.strip()}


def build(torch_npu: Path, folder: Path) -> int:
    """Build the stand-ins for the wheel unpacked at ``torch_npu``; returns how many symbols they define."""
    libraries = [*torch_npu.glob("_C*.so"), *torch_npu.glob("lib/*.so")]
    wanted = sorted(name for name in set().union(*map(undefined_symbols, libraries)) if CANN_SYMBOL.match(name))
    source = folder / "cann.c"
    source.write_text("".join(f"long {name}(void) {{ return 0; }}\n" for name in wanted))
    nothing = folder / "nothing.c"
    nothing.write_text("")
    for name in LIBRARIES:
        # Functions are found wherever they are defined, so one library holds them all.
        code = source if name == LIBRARIES[0] else nothing
        command = ["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,lib{name}.so", "-o", folder / f"lib{name}.so", code]
        subprocess.run(command, check=True, capture_output=True)
    return len(wanted)


def load(folder: Path) -> None:
    """Load them into this process; the loader then takes them for what torch_npu asks for by soname."""
    for name in LIBRARIES:
        ctypes.CDLL(str(folder / f"lib{name}.so"), mode=ctypes.RTLD_GLOBAL)
