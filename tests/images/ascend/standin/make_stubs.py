# SPDX-License-Identifier: Apache-2.0
"""Lay out /usr/local/Ascend as CANN 8.3 does, with libraries that satisfy torch_npu's imports: make_stubs.py WHEELS TARGET

The names of the libraries and of the functions that torch_npu looks for are read from its own wheel.
"""

import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

# Shared objects that CANN and ATB bring and torch_npu (or vllm-ascend) is linked against.
LIBRARIES = ("ascendcl", "hccl", "ge_runner", "graph", "acl_op_compiler", "acl_tdt_channel", "opapi", "cust_opapi", "atb",
             "nnopbase")
# C functions of AscendCL and HCCL, and C++ ones of the graph engine.
WANTED = re.compile(r"^(acl|Hccl|_ZN2ge|_ZNK2ge|_ZTVN2ge|_ZTIN2ge|_ZN5aclnn)")
TOOLKIT_ENV = """export ASCEND_TOOLKIT_HOME={home}/ascend-toolkit/latest
export ASCEND_HOME_PATH=${{ASCEND_TOOLKIT_HOME}}
export LD_LIBRARY_PATH=${{ASCEND_TOOLKIT_HOME}}/lib64:$LD_LIBRARY_PATH
export PATH=${{ASCEND_TOOLKIT_HOME}}/bin:$PATH
export ASCEND_OPP_PATH=${{ASCEND_TOOLKIT_HOME}}/opp
"""
ATB_ENV = """export ATB_HOME_PATH={home}/nnal/atb/latest/atb/cxx_abi_1
export LD_LIBRARY_PATH=${{ATB_HOME_PATH}}/lib:$LD_LIBRARY_PATH
"""


def undefined_symbols(wheel: pathlib.Path) -> set[str]:
    """What the wheel's shared objects expect from CANN."""
    found: set[str] = set()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".so")]
        archive.extractall(folder, names)
        for name in names:
            listed = subprocess.run(["nm", "-D", "--undefined-only", f"{folder}/{name}"], capture_output=True, text=True,
                                    check=True).stdout
            found |= {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
    return {symbol for symbol in found if WANTED.match(symbol)}


def build(target: pathlib.Path, source: str, name: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(source)
        file.flush()
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", str(target), f"-Wl,-soname,{name}", file.name], check=True)


def main(wheels: pathlib.Path, home: pathlib.Path) -> None:
    machine = f"{platform.machine()}-linux"
    latest = home / "ascend-toolkit/latest"
    libraries = latest / machine / "lib64"
    # torch_npu refuses a toolkit without opp, runtime and compiler.
    for folder in (libraries, latest / machine / "devlib", *(latest / name for name in ("bin", "opp", "runtime", "compiler")),
                   home / "nnal/atb/latest/atb/cxx_abi_1/lib"):
        folder.mkdir(parents=True)
    (latest / "lib64").symlink_to(libraries)
    wheel = next(iter(sorted(wheels.glob("torch_npu-*.whl"))))
    symbols = undefined_symbols(wheel)
    print(f"{wheel.name} expects {len(symbols)} symbols of CANN")
    # One library defines them all: the loader looks through every one that is loaded.
    functions = "".join(f'int stub_{index}(void) __asm__("{symbol}"); int stub_{index}(void) {{ return 0; }}\n'
                        for index, symbol in enumerate(sorted(symbols)))
    for name in LIBRARIES:
        folder = home / "nnal/atb/latest/atb/cxx_abi_1/lib" if name == "atb" else libraries
        build(folder / f"lib{name}.so", functions if name == "ascendcl" else "int stub_library;\n", f"lib{name}.so")
    build(latest / machine / "devlib/libascend_hal.so", "int stub_library;\n", "libascend_hal.so")
    (home / "ascend-toolkit/set_env.sh").write_text(TOOLKIT_ENV.format(home=home))
    (home / "nnal/atb/set_env.sh").write_text(ATB_ENV.format(home=home))
    # vllm-ascend 0.12.0's kernel build takes this header from the toolkit.
    (latest / "include").mkdir()
    (latest / "include/moe_distribute_base.h").write_text("/* stand-in */\n")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
