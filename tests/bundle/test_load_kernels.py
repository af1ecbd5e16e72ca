# SPDX-License-Identifier: Apache-2.0
"""What an image's build says of the compiled extension of vllm-ascend: real shared objects, loaded by its script.

Simulated: CANN's folder, torch and torch_npu (modules of a few lines), and the extension's code, as in the test of the
Ascend image, which runs the script with the real torch_npu.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "operations/bundle/image_build/load_kernels.sh"
EXTENSION = (ROOT / "tests/images/ascend/simulated_cann/toolkit/extension.c").read_text()
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


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (gcc)")
@pytest.mark.parametrize("case", CASES)
def test_an_extension_that_cannot_be_loaded_ends_the_build(case: str, tmp_path: Path):
    source, status, words = CASES[case]
    stubs = tmp_path / f"ascend-toolkit/latest/{os.uname().machine}-linux/devlib"
    for folder in (stubs, tmp_path / "nnal/atb", tmp_path / "packages/vllm_ascend"):
        folder.mkdir(parents=True)
    for settings in ("ascend-toolkit/set_env.sh", "nnal/atb/set_env.sh"):
        (tmp_path / settings).write_text("export LD_LIBRARY_PATH=/nowhere:$LD_LIBRARY_PATH\n")
    compile_library("int driver(void) { return 0; }", stubs / "libascend_hal.so")
    for name, text in {"torch": TORCH, "torch_npu": "", "vllm_ascend/__init__": ""}.items():
        (tmp_path / f"packages/{name}.py").write_text(text)
    if source:
        library = tmp_path / "packages/vllm_ascend/vllm_ascend_C.so"
        compile_library(DRIVER + source, library, f"-L{stubs}", "-lascend_hal")
    env = {"PATH": os.environ["PATH"], "ASCEND": str(tmp_path), "PYTHONPATH": str(tmp_path / "packages")}
    done = subprocess.run([SCRIPT, sys.executable], env=env, capture_output=True, text=True, check=False, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == status and words in said.splitlines()[-1], said
    assert (status == 2) == said.startswith("error: the compiled extension of vllm-ascend does not load: ")
