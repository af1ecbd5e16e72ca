# SPDX-License-Identifier: Apache-2.0
"""Lay out /usr/local/Ascend as a version of CANN does, with simulated libraries and tools.

lay_out.py VERSION TARGET WHEEL
``tests/support/simulated_cann`` builds the libraries, as for the tests on the NPU path. The image build puts that
file under its path beside this one. The names of the functions come from WHEEL, torch_npu itself. ``toolkit``
holds what the kernel build calls: CANN's CMake functions, generators and compilers, each simulated.
"""

import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass

from tests.support import simulated_cann

TOOLKIT = pathlib.Path(__file__).resolve().parent / "toolkit"
MACHINE = f"{platform.machine()}-linux"
TOOLKIT_ENV = """export ASCEND_TOOLKIT_HOME={toolkit}
export ASCEND_HOME_PATH=${{ASCEND_TOOLKIT_HOME}}
export LD_LIBRARY_PATH=${{ASCEND_TOOLKIT_HOME}}/lib64:$LD_LIBRARY_PATH
export PATH=${{ASCEND_TOOLKIT_HOME}}/bin:${{ASCEND_TOOLKIT_HOME}}/compiler/ccec_compiler/bin:$PATH
export ASCEND_OPP_PATH=${{ASCEND_TOOLKIT_HOME}}/opp
"""
# As ATB's own: without --cxx_abi it asks the torch of the first python3, and takes 0 where there is none.
ATB_ENV = """abi=$(python3 -c 'import torch; print(int(torch.compiled_with_cxx11_abi()))' 2>/dev/null) || abi=0
export ATB_HOME_PATH={home}/nnal/atb/latest/atb/cxx_abi_$abi
export LD_LIBRARY_PATH=${{ATB_HOME_PATH}}/lib:$LD_LIBRARY_PATH
"""


@dataclass(frozen=True)
class Layout:
    """Where a version has its parts. `toolkit` is the folder below /usr/local/Ascend, `links` are further names of it.

    `linked` and `static` are what the kernel build links, besides the libraries that torch_npu is linked to. `headers`
    are those whose places it looks for; others are on the compilers' list alone.
    """

    toolkit: str
    links: tuple[tuple[str, str], ...]
    linked: str
    static: str
    headers: tuple[str, ...]


COMMON = """ascendalog ascend_dump c_sec error_manager exe_graph ge_common_base graph_base mmpa platform profapi
register runtime"""
LAYOUTS = {
    "8.3": Layout(
        toolkit="ascend-toolkit/latest",
        links=(),
        linked=COMMON,
        static="rt2_registry tiling_api",
        headers=("include/base/alog_pub.h",),
    ),
    # cann and ascend-toolkit/latest are links, as the released packages make them.
    "9.1": Layout(
        toolkit="cann-9.1.0",
        links=(("cann", "cann-9.1.0"), ("ascend-toolkit/latest", "cann")),
        linked=f"{COMMON} opapi_math ops_base unified_dlog",
        static="aicpu_context base_ascend_protobuf c_sec rt2_registry tiling_api",
        headers=(
            "include/acl/acl.h",
            "include/exe_graph/runtime/tensor.h",
            "include/aclnn/aclnn_base.h",
            "include/aclnn/opdev/op_errno.h",
            "include/platform/platform_info.h",
            "include/register/register.h",
            "include/securec.h",
            "include/tiling/tiling_api.h",
            "include/toolchain/dlog_pub.h",
            "pkg_inc/base/alog_pub.h",
            "pkg_inc/op_common/op_host/util/opbase_export.h",
            "pkg_inc/runtime/rt_external.h",
        ),
    ),
}


def build_libraries(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """Build the libraries that torch_npu is linked to, in ``folder``."""
    with tempfile.TemporaryDirectory() as unpacked:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked, [name for name in archive.namelist() if ".so" in name])
        count = simulated_cann.build(pathlib.Path(unpacked) / "torch_npu", folder)
    print(f"{wheel.name} expects {count} symbols of CANN")


def program(place: pathlib.Path, source: str, python: str = "/usr/bin/python3.11") -> None:
    """Install a program of ``toolkit``."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!{python}\n{(TOOLKIT / source).read_text()}")
    place.chmod(0o755)


def build_toolkit(version: str, toolkit: pathlib.Path) -> None:
    """What the kernel build finds of CANN: CMake functions, generators of sources, compilers, libraries to link."""
    layout, libraries = LAYOUTS[version], toolkit / MACHINE / "lib64"
    own = f"cann_{version.replace('.', '_')}"  # in ``toolkit``, what only this version has
    kernel_cmake = toolkit / "compiler/tikcpp/ascendc_kernel_cmake"
    kernel_cmake.mkdir(parents=True)
    shutil.copyfile(TOOLKIT / "ascendc.cmake", kernel_cmake / "ascendc.cmake")
    if version == "8.3":
        # Later releases of vllm-ascend bring these generators and scripts themselves.
        shutil.copytree(TOOLKIT / own / "project", toolkit / "tools/op_project_templates/ascendc/customize")
        program(toolkit / "bin/opc", f"{own}/opc.py")
    else:
        (toolkit / MACHINE / "tikcpp").symlink_to(toolkit / "compiler/tikcpp")
        # It imports what the operator's Python file imports, from the environment that runs it.
        program(toolkit / "bin/opc", f"{own}/opc.py", "/usr/bin/env python3")
        (toolkit / "compiler/version.info").write_text("Version=9.1.0\n")
    program(toolkit / "tools/opbuild/op_build", "op_build")
    compilers = toolkit / "compiler/ccec_compiler/bin"
    for name in ("bisheng", "c++", "cc"):
        # It starts hundreds of times, and imports nothing but the standard library.
        program(compilers / name, "compilers.py", "/usr/bin/python3.11 -IS")
    lists = [path.read_text() for path in (TOOLKIT / "headers.txt", TOOLKIT / own / "headers.txt") if path.is_file()]
    (compilers / "headers.txt").write_text("".join(lists))
    shutil.copyfile(TOOLKIT / "extension.c", compilers / "extension.c")
    hcc = toolkit / "toolkit/toolchain/hcc/bin"
    hcc.mkdir(parents=True)
    for name in ("gcc", "g++"):
        (hcc / f"aarch64-target-linux-gnu-{name}").symlink_to(compilers / "bisheng")
    (toolkit / "bin/setenv.bash").write_text("# Simulated: set_env.sh has set all already.\n")
    for header in layout.headers:
        place = toolkit / MACHINE / header
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("/* simulated */\n")
    for name in layout.linked.split():
        simulated_cann.build_library(libraries / f"lib{name}.so", "")
    for name in layout.static.split():
        subprocess.run(["ar", "rc", libraries / f"lib{name}.a"], check=True)


def main(version: str, home: pathlib.Path, wheel: pathlib.Path) -> None:
    layout = LAYOUTS[version]
    toolkit = home / layout.toolkit
    libraries, devlib = toolkit / MACHINE / "lib64", toolkit / MACHINE / "devlib"
    # torch_npu refuses a toolkit without opp, runtime and compiler.
    for folder in (libraries, devlib, *(toolkit / name for name in ("bin", "opp", "runtime", "compiler"))):
        folder.mkdir(parents=True)
    (home / "ascend-toolkit").mkdir(exist_ok=True)
    for link, target in layout.links:
        (home / link).symlink_to(home / target)
    build_libraries(wheel, libraries)
    for abi in (0, 1):
        atb = home / f"nnal/atb/latest/atb/cxx_abi_{abi}/lib"
        atb.mkdir(parents=True)
        shutil.copyfile(libraries / "libatb.so", atb / "libatb.so")
    (libraries / "libatb.so").unlink()
    # The toolkit brings this library of the driver only to link against.
    simulated_cann.build_library(devlib / "libascend_hal.so", "")
    (home / "ascend-toolkit/set_env.sh").write_text(TOOLKIT_ENV.format(toolkit=toolkit))
    (home / "nnal/atb/set_env.sh").write_text(ATB_ENV.format(home=home))
    build_toolkit(version, toolkit)
    for folder in (toolkit / MACHINE / name for name in ("lib64", "include", "pkg_inc")):
        if folder.is_dir():
            (toolkit / folder.name).symlink_to(folder)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
