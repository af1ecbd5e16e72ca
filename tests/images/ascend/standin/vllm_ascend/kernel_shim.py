# SPDX-License-Identifier: Apache-2.0
"""A build backend in the place of vllm-ascend's kernel build: asserts SOC_VERSION, sources and surroundings, compiles nothing."""

import base64
import hashlib
import os
import pathlib
import shutil
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD_INFO = "vllm_ascend/_build_info.py"


def check_surroundings() -> None:
    """What the real build reads, at the places where it reads it."""
    import torch  # noqa: F401  (the kernels are compiled against it)

    assert os.environ["SOC_VERSION"] == "ascend910_9391", os.environ["SOC_VERSION"]
    home = pathlib.Path(os.environ["ASCEND_HOME_PATH"])
    assert home.is_dir() and pathlib.Path(os.environ["ATB_HOME_PATH"]).is_dir()
    assert any(folder.endswith("-linux/devlib") for folder in os.environ["LD_LIBRARY_PATH"].split(":"))
    assert (HERE / "csrc/third_party/catlass/include").is_dir(), "catlass is not where the A3 operators look for it"
    for program in ("gcc", "g++", "cmake", "make"):
        assert shutil.which(program), f"{program} is missing"
    assert os.environ["COMPILE_CUSTOM_KERNELS"] == "1" and os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"] == "0.12.0rc1"
    assert sys.prefix.startswith("/opt/venv/"), sys.prefix


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    check_surroundings()
    print(f"SHIM: no kernel is compiled for {os.environ['SOC_VERSION']}; the released wheel's Python code is repackaged")
    released = next(HERE.glob("vllm_ascend-*.whl"))
    target = pathlib.Path(wheel_directory) / released.name
    info = b"# Auto-generated file\n__device_type__ = '_910_93'\n__sleep_mode_enabled__ = True\n"
    with zipfile.ZipFile(released) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as result:
        for item in source.infolist():
            data = source.read(item)
            if item.filename == BUILD_INFO:
                data = info
            elif item.filename.endswith(".dist-info/RECORD"):
                digest = base64.urlsafe_b64encode(hashlib.sha256(info).digest()).rstrip(b"=").decode()
                lines = [f"{BUILD_INFO},sha256={digest},{len(info)}" if line.startswith(f"{BUILD_INFO},") else line
                         for line in data.decode().splitlines()]
                data = ("\n".join(lines) + "\n").encode()
            result.writestr(item, data)
    return target.name
