# SPDX-License-Identifier: Apache-2.0
"""Devices: ``cpu``, ``cuda``, ``npu``, with a number if there are several. Finding one, waiting for it, its memory."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import re
import sys
from pathlib import Path
from typing import Any

# torch would load torch_npu by itself, and fail as a whole where CANN is not sourced; we load it when it is asked for.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

from tool_errors import DeviceError, EnvironmentSetupError

DTYPES = ("float16", "bfloat16", "float32")
CANN_LIBRARY = re.compile(r"lib(ascend\w*|hccl|ge_\w+|graph|acl\w*|opapi|nnopbase|runtime)\.so")
ATB_LIBRARY = re.compile(r"lib(atb\w*|asdops)\.so")
SOURCE_CANN = "source /usr/local/Ascend/ascend-toolkit/set_env.sh"
SOURCE_ATB = "source /usr/local/Ascend/nnal/atb/set_env.sh"


def device_name(text: str) -> str:
    """argparse type: ``cpu``, ``cuda``, ``npu``, the last two with ``:NUMBER`` if wanted."""
    if re.fullmatch(r"cpu|(cuda|npu)(:\d+)?", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no device; expected cpu, cuda or npu, or one like npu:1")
    return text


class Device:
    """One device. Raises EnvironmentSetupError or DeviceError, saying what is missing, when it cannot be used."""

    def __init__(self, name: str) -> None:
        import torch

        self.name = name
        self.kind, _, number = name.partition(":")
        self._torch = torch
        if self.kind == "npu":
            load_torch_npu()
        # torch.cuda or torch.npu; None for the CPU, which runs nothing behind our back.
        self._api: Any = None if self.kind == "cpu" else getattr(torch, self.kind)
        if self._api is not None:
            self._check(int(number or 0))
            self._compute_as_told()

    def _check(self, number: int) -> None:
        count = self._api.device_count() if self._api.is_available() else 0
        if count <= number:
            mask = {"npu": "ASCEND_RT_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}[self.kind]
            nodes = {"npu": "/dev/davinci*, /dev/davinci_manager and /dev/hisi_hdc", "cuda": "/dev/nvidia*"}[self.kind]
            monitor = {"npu": "npu-smi info", "cuda": "nvidia-smi"}[self.kind]
            raise DeviceError(
                f"--device {self.name}: torch sees {count} {self.kind} devices ({mask}={os.environ.get(mask, '')!r}); "
                f"check {monitor}, and in a container that {nodes} are mounted"
            )
        if self.kind == "cuda" and lacks_cuda():
            raise EnvironmentSetupError(
                f"--device {self.name}: this environment was made without CUDA's libraries; make it with "
                "scripts/setup_env.sh --cuda reference"
            )

    def _compute_as_told(self) -> None:
        """float32 means float32: by default convolutions round their inputs to 10 bits of mantissa."""
        if self.kind == "cuda":
            self._torch.backends.cudnn.allow_tf32 = False
            return
        self._api.conv.allow_hf32 = self._api.matmul.allow_hf32 = False
        # Use the kernels in CANN's packages. A 310P would compile each new length for minutes.
        self._api.set_compile_mode(jit_compile=False)

    @property
    def description(self) -> str:
        """The device's own name, or the processor's."""
        if self._api is not None:
            return str(self._api.get_device_name(self._torch.device(self.name)))
        try:
            lines = Path("/proc/cpuinfo").read_text().splitlines()
        except OSError:
            lines = []
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "processor")
        threads = self._torch.get_num_threads()
        return f"{model}, {threads} thread" + ("" if threads == 1 else "s")

    def synchronize(self) -> None:
        """Wait until everything that was started on the device is done: without it, only the starting is timed."""
        if self._api is not None:
            self._api.synchronize(self._torch.device(self.name))

    def reset_peak_memory(self) -> None:
        if self._api is not None:
            self._api.reset_peak_memory_stats(self._torch.device(self.name))
        else:
            # 5 resets VmHWM (proc(5)); where that is not allowed the peak counts from the process's start.
            try:
                Path("/proc/self/clear_refs").write_text("5")
            except OSError:
                return

    def peak_memory(self) -> int:
        """Bytes: on a device what torch allocated there at most, on the CPU the process's largest resident size."""
        if self._api is not None:
            return int(self._api.max_memory_allocated(self._torch.device(self.name)))
        status = Path("/proc/self/status").read_text()
        peak = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
        if peak is None:
            raise DeviceError(
                "cpu: /proc/self/status names no VmHWM, the peak of memory; run on a Linux kernel that does"
            )
        return int(peak[1]) * 1024

    def empty_cache(self) -> None:
        if self._api is not None:
            self._api.empty_cache()


def load_torch_npu() -> None:
    """Import torch_npu. Raises EnvironmentSetupError that tells its absence, an unsourced CANN and a wrong pair
    apart."""
    import torch

    version = torch.__version__.partition("+")[0]
    try:
        importlib.import_module("torch_npu")
    except ImportError as error:
        text = str(error)
        if isinstance(error, ModuleNotFoundError) and error.name == "torch_npu":
            raise EnvironmentSetupError(
                f"torch_npu is not installed in this environment; install the one that matches torch {version}: "
                + installing(version)
            ) from error
        if ATB_LIBRARY.search(text):
            raise EnvironmentSetupError(f"ATB is not in reach ({text}); run: {SOURCE_ATB}") from error
        if CANN_LIBRARY.search(text):
            raise EnvironmentSetupError(f"CANN is not in reach ({text}); run: {SOURCE_CANN}") from error
        if "undefined symbol" in text:
            raise EnvironmentSetupError(
                f"torch_npu {npu_version()} does not match torch {version} or the installed CANN ({text}); install "
                f"the matching one: {installing(version)}"
            ) from error
        raise EnvironmentSetupError(f"torch_npu cannot be imported ({text}); check CANN's installation") from error


def installing(version: str) -> str:
    """The command that installs a torch_npu. uv lies in an environment beside this one, and is on nobody's PATH."""
    uv = Path(sys.prefix).with_name("bootstrap") / "bin/uv"
    command = f"{uv} pip install --python {sys.executable} --no-deps torch-npu=={version}"
    return f"{command}, and what CANN's modules import (docs/tools.md)"


def npu_version() -> str:
    try:
        return importlib.metadata.version("torch-npu")
    except importlib.metadata.PackageNotFoundError:
        return "(unknown version)"


def available(name: str) -> tuple[Device | None, str]:
    """The device and an empty reason, or None and why it cannot be used."""
    try:
        return Device(name), ""
    except (DeviceError, EnvironmentSetupError) as error:
        return None, str(error)


def preferred() -> str:
    """An NPU where the driver has made its device file, a GPU where torch sees one and can use it, else the CPU."""
    import torch

    if Path("/dev/davinci_manager").exists():
        return "npu"
    return "cuda" if torch.cuda.is_available() and not lacks_cuda() else "cpu"


def lacks_cuda() -> bool:
    """Whether small libraries stand in the place of CUDA's (operations/bundle/environments/cuda.py). With them torch
    sees a GPU and cannot compute on it."""
    import torch

    packages = Path(torch.__file__).parents[1]
    return (packages / "nvidia/nccl/lib").is_dir() and not any(packages.glob("nvidia_nccl*.dist-info"))
