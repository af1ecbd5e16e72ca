# SPDX-License-Identifier: Apache-2.0
"""Lay out /usr/local/Ascend as CANN 8.3 does, with simulated libraries and tools: lay_out.py WHEELS TARGET

``tests/support/simulated_cann`` builds the libraries, as for the tests on the NPU path. The image build puts that
file under its path beside this one. The names of the functions come from the wheel of torch_npu itself. ``toolkit``
holds what the kernel build calls: CANN's CMake functions, generators and compilers, each simulated.
"""

import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile

from tests.support import simulated_cann

TOOLKIT = pathlib.Path(__file__).resolve().parent / "toolkit"
TOOLKIT_ENV = """export ASCEND_TOOLKIT_HOME={home}/ascend-toolkit/latest
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
# What the kernel build links, besides the libraries that torch_npu is linked to.
LINKED = """ascendalog ascend_dump c_sec error_manager exe_graph ge_common_base graph_base mmpa platform profapi
register runtime"""
STATIC = "rt2_registry tiling_api"
# Headers whose places the build looks for. Others are on the compilers' list alone.
HEADERS = ("base/alog_pub.h", "experiment/hccl/moe_distribute_base.h")


def build_libraries(wheels: list[pathlib.Path], folder: pathlib.Path) -> None:
    """Build the libraries that any of the wheels is linked to, in ``folder``."""
    with tempfile.TemporaryDirectory() as unpacked:
        for number, wheel in enumerate(wheels):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(f"{unpacked}/{number}", [name for name in archive.namelist() if ".so" in name])
        count = simulated_cann.build_for(sorted(pathlib.Path(unpacked).glob("*/torch_npu")), folder)
    print(f"{', '.join(wheel.name for wheel in wheels)} expect {count} symbols of CANN")


def program(place: pathlib.Path, source: str) -> None:
    """Install a program of ``toolkit`` that runs on the system's Python."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/usr/bin/python3.11\n{(TOOLKIT / source).read_text()}")
    place.chmod(0o755)


def build_toolkit(latest: pathlib.Path, libraries: pathlib.Path) -> None:
    """What the kernel build finds of CANN: CMake functions, generators of sources, compilers, libraries to link."""
    project = latest / "tools/op_project_templates/ascendc/customize"
    shutil.copytree(TOOLKIT / "project", project)
    program(latest / "tools/opbuild/op_build", "op_build")
    program(latest / "bin/opc", "opc.py")
    cmake = latest / "compiler/tikcpp/ascendc_kernel_cmake"
    cmake.mkdir(parents=True)
    shutil.copyfile(TOOLKIT / "ascendc.cmake", cmake / "ascendc.cmake")
    compilers = latest / "compiler/ccec_compiler/bin"
    for name in ("bisheng", "c++", "cc"):
        program(compilers / name, "compilers.py")
    for name in ("headers.txt", "extension.c"):
        shutil.copyfile(TOOLKIT / name, compilers / name)
    (latest / "bin/setenv.bash").write_text("# Simulated: set_env.sh has set all already.\n")
    for header in HEADERS:
        (latest / "include" / header).parent.mkdir(parents=True, exist_ok=True)
        (latest / "include" / header).write_text("/* simulated */\n")
    for name in LINKED.split():
        simulated_cann.build_library(libraries / f"lib{name}.so", "")
    for name in STATIC.split():
        subprocess.run(["ar", "rc", libraries / f"lib{name}.a"], check=True)


def main(wheels: pathlib.Path, home: pathlib.Path) -> None:
    machine = f"{platform.machine()}-linux"
    latest = home / "ascend-toolkit/latest"
    libraries, devlib = latest / machine / "lib64", latest / machine / "devlib"
    # torch_npu refuses a toolkit without opp, runtime and compiler.
    for folder in (libraries, devlib, *(latest / name for name in ("bin", "opp", "runtime", "compiler"))):
        folder.mkdir(parents=True)
    (latest / "lib64").symlink_to(libraries)
    build_libraries(sorted(wheels.glob("torch_npu-*.whl")), libraries)
    for abi in (0, 1):
        atb = home / f"nnal/atb/latest/atb/cxx_abi_{abi}/lib"
        atb.mkdir(parents=True)
        shutil.copyfile(libraries / "libatb.so", atb / "libatb.so")
    (libraries / "libatb.so").unlink()
    # The toolkit brings this library of the driver only to link against.
    simulated_cann.build_library(devlib / "libascend_hal.so", "")
    (home / "ascend-toolkit/set_env.sh").write_text(TOOLKIT_ENV.format(home=home))
    (home / "nnal/atb/set_env.sh").write_text(ATB_ENV.format(home=home))
    build_toolkit(latest, libraries)


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
