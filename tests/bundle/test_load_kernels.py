# SPDX-License-Identifier: Apache-2.0
"""What an image's build says of the compiled extension of vllm-ascend: real shared objects, loaded by its script.

Simulated: CANN's folder, torch and torch_npu (modules of a few lines), and the extension's code, as in the test of the
Ascend image, which runs the script with the real torch_npu.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.system_packages import needs

SCRIPT = ROOT / "operations/bundle/image_build/load_kernels.sh"
TEMPLATE = (ROOT / "tests/images/ascend/simulated_cann/toolkit/extension.c").read_text()
EXTENSION = TEMPLATE.replace(" SCHEMAS ", """ "['weak_ref_tensor(Tensor input) -> Tensor']" """)
TORCH = """
class ops:
    class _C_ascend:
        pass

class library:
    class Library:
        def __init__(self, *names):
            pass
        def define(self, schema):
            setattr(ops._C_ascend, schema.partition("(")[0], schema)
"""
# As the real one, it needs the driver's library, which the toolkit's stub takes the place of.
DRIVER = "extern int driver(void); int use(void) { return driver(); }\n"
CASES = {
    "it loads": (EXTENSION, 0, "the compiled extension of vllm-ascend loads"),
    "it has the norm of 0.23.0 alone": (
        EXTENSION.replace("weak_ref_tensor", "npu_add_rms_norm_bias"),
        0,
        "the compiled extension of vllm-ascend loads",
    ),
    "a symbol that nothing defines": (EXTENSION + "extern int lost(void); int b(void) { return lost(); }\n", 2, "lost"),
    "no operator": (EXTENSION.replace("weak_ref_tensor", "other"), 2, "no attribute 'weak_ref_tensor'"),
    "no module of Python": ("int nothing;\n", 2, "does not define module export function"),
    "not there": (None, 2, "No module named 'vllm_ascend.vllm_ascend_C'"),
    "it gives up without a device": (
        EXTENSION + "void abort(void); __attribute__((constructor)) void first(void) { abort(); }\n",
        0,
        "WARNING: loading the compiled extension ended by signal 6",
    ),
}


def compile_library(source: str, library: Path, *options: str) -> None:
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", str(library), "-x", "c", "-", *options]
    subprocess.run(command, input=source, text=True, check=True)


@needs("gcc", "libc6-dev")
@pytest.mark.parametrize("case", CASES)
def test_an_extension_that_cannot_be_loaded_ends_the_build(case: str, tmp_path: Path):
    source, status, words = CASES[case]
    stubs = tmp_path / f"ascend-toolkit/latest/{os.uname().machine}-linux/devlib"
    for folder in (stubs, tmp_path / "nnal/atb", tmp_path / "packages/vllm_ascend"):
        folder.mkdir(parents=True)
    lay_out(tmp_path)
    compile_library("int driver(void) { return 0; }", stubs / "libascend_hal.so")
    for name, text in {"torch": TORCH, "torch_npu": "", "vllm_ascend/__init__": ""}.items():
        (tmp_path / f"packages/{name}.py").write_text(text)
    if source:
        library = tmp_path / "packages/vllm_ascend/vllm_ascend_C.so"
        compile_library(DRIVER + source, library, f"-L{stubs}", "-lascend_hal")
    env = {"PATH": "/usr/bin:/bin", "ASCEND": str(tmp_path), "PYTHONPATH": str(tmp_path / "packages")}
    done = subprocess.run([SCRIPT, sys.executable], env=env, capture_output=True, text=True, check=False, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == status and words in said.splitlines()[-1], said
    assert (status == 2) == said.startswith("error: the compiled extension of vllm-ascend does not load: ")
    assert (tmp_path / "asked").read_text().strip() == str(Path(sys.executable).with_name("python3"))


def lay_out(ascend: Path) -> None:
    """CANN's two files of settings. As the real one, ATB's asks `python3`; `asked` says which it found."""
    for settings in ("ascend-toolkit/set_env.sh", "nnal/atb/set_env.sh"):
        (ascend / settings).parent.mkdir(parents=True, exist_ok=True)
        (ascend / settings).write_text("export LD_LIBRARY_PATH=/nowhere:$LD_LIBRARY_PATH\n")
    with (ascend / "nnal/atb/set_env.sh").open("a") as file:
        file.write(f"command -v python3 >{ascend}/asked\n")


@pytest.mark.parametrize(("place", "named"), [("openEuler-linux", True), ("linux-gnu", False)])
def test_compilers_find_the_headers_of_openeuler(tmp_path: Path, place: str, named: bool):
    """vllm-ascend's Dockerfile.a3.openEuler names them at both pinned commits: else <cstdint> is not found."""
    lay_out(tmp_path)
    headers = tmp_path / "c++/12" / f"{os.uname().machine}-{place}"
    headers.mkdir(parents=True)
    env = {"PATH": os.environ["PATH"], "ASCEND": str(tmp_path), "CXX_HEADERS": str(tmp_path / "c++")}
    code = 'source "$1"; echo "${CPLUS_INCLUDE_PATH:-}"'
    words = ["bash", "-euo", "pipefail", "-c", code, "-", str(SCRIPT.with_name("cann_environment.sh"))]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (f"{headers.parent}:{headers}" if named else "")
