# SPDX-License-Identifier: Apache-2.0
"""Devices that are not there, and how one that is would be waited for.

There is no NPU here: ``torch_npu`` is *simulated* by modules that fail to import the way the real one does, and by an
object that counts calls. tests/npu/tower runs the real torch_npu on simulated CANN libraries.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest
import torch

from bundle.environments.cuda import FOLDER
from reference import cases, inference, performance, timing
from reference.device import Device, available, device_name, preferred
from reference.model import ReferenceModel, translate
from tests.reference.golden import case
from tests.support.paths import GOLDEN
from tool_errors import DeviceError, EnvironmentSetupError, UsageError

IMPORT_FAILURES = {
    "libascendcl.so: cannot open shared object file: No such file or directory": "ascend-toolkit/set_env.sh",
    "libhccl.so: cannot open shared object file: No such file or directory": "ascend-toolkit/set_env.sh",
    "libatb.so: cannot open shared object file: No such file or directory": "nnal/atb/set_env.sh",
    "/x/libtorch_npu.so: undefined symbol: _ZN2at4_ops5zeros": "does not match torch",
    "something else": "check CANN's installation",
}


def simulate_torch_npu(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    (folder / "torch_npu.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, "torch_npu", None)  # so that it is taken out again afterwards
    monkeypatch.delitem(sys.modules, "torch_npu")


@pytest.mark.parametrize("message", IMPORT_FAILURES)
def test_an_import_that_fails_says_what_to_do(message, tmp_path, monkeypatch):
    simulate_torch_npu(tmp_path, monkeypatch, f"raise ImportError({message!r})")
    with pytest.raises(EnvironmentSetupError) as raised:
        Device("npu")
    assert IMPORT_FAILURES[message] in str(raised.value)


def test_torch_npu_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    monkeypatch.setattr("importlib.import_module", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name=name)))
    # uv is where scripts/setup_env.sh put it.
    uv = Path(sys.prefix).parent / "bootstrap/bin/uv"
    with pytest.raises(
        EnvironmentSetupError, match=f"{uv} pip .* torch-npu=={torch.__version__.partition('+')[0]}, .*docs/tools"
    ):
        Device("npu")
    assert uv.is_file()


def test_no_npu_is_visible(tmp_path, monkeypatch):
    simulate_torch_npu(tmp_path, monkeypatch, "")
    monkeypatch.setattr(torch, "npu", types.SimpleNamespace(is_available=lambda: False), raising=False)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "17")
    with pytest.raises(DeviceError, match=r"ASCEND_RT_VISIBLE_DEVICES='17'.*npu-smi info.*/dev/davinci"):
        Device("npu:1")


def test_float32_is_float32_on_a_device(tmp_path, monkeypatch):
    """By default convolutions round their inputs, and the first layer of each vision tower is one."""
    simulate_torch_npu(tmp_path, monkeypatch, "")
    modes: list[bool] = []
    npu = types.SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        conv=types.SimpleNamespace(allow_hf32=True),
        matmul=types.SimpleNamespace(allow_hf32=True),
        set_compile_mode=lambda jit_compile: modes.append(jit_compile),
    )
    monkeypatch.setattr(torch, "npu", npu, raising=False)
    Device("npu")
    assert not npu.conv.allow_hf32 and not npu.matmul.allow_hf32 and modes == [False]
    for name, value in {"is_available": True, "device_count": 1}.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr("reference.device.lacks_cuda", lambda: False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    Device("cuda")
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu():
    device, reason = available("cuda")
    assert device is None and "nvidia-smi" in reason


def test_a_gpu_without_cudas_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """torch sees the GPU by the CUDA runtime alone; the libraries that compute are small ones in their place."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch/__init__.py"))
    assert available("cuda")[1] == "" and preferred() == "cuda", "torch from elsewhere, with CUDA in the system"
    (tmp_path / FOLDER).mkdir(parents=True)
    assert "scripts/setup_env.sh --cuda reference" in available("cuda")[1] and preferred() == "cpu"
    (tmp_path / "nvidia_nccl_cu12-2.27.5.dist-info").mkdir()
    assert available("cuda")[1] == "" and preferred() == "cuda"


@pytest.mark.parametrize("name", ["npu:", "tpu", "cpu:0", "NPU"])
def test_names_of_no_device(name):
    with pytest.raises(Exception, match="expected cpu, cuda or npu"):
        device_name(name)


class CountingApi:
    """Stands in for ``torch.npu``: notes the order of calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str):
        def call(_device=None):
            self.calls.append(name)
            return 3 << 20

        return call


@pytest.fixture
def simulated_npu() -> Device:
    """A device whose work runs on the CPU and whose torch.npu is simulated."""
    device = Device("cpu")
    device._api = CountingApi()
    return device


def test_every_token_is_waited_for(simulated_npu, demo):
    """Without a wait before the clock is read, only the launching of kernels would be timed."""
    model = ReferenceModel(demo, simulated_npu)
    api = simulated_npu._api
    first, total = timing.time_inputs(model, model.inputs(case()), 4)
    assert api.calls.count("synchronize") == 1 + 1 + 4  # before the start, after the prompt, after each token
    assert 0 < first < total
    simulated_npu.reset_peak_memory()
    assert simulated_npu.peak_memory() == 3 << 20 and api.calls[-2:] == [
        "reset_peak_memory_stats",
        "max_memory_allocated",
    ]


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        ("NPU out of memory. Tried to allocate 2.00 GiB", DeviceError, "npu-smi info"),
        ("Image features and image tokens do not match: tokens: 0, features 196", UsageError, "<|IMAGE_PLACEHOLDER|>"),
        ("absolute aspect ratio must be smaller than 200, got 300.0", UsageError, "cut it into parts"),
    ],
)
def test_errors_of_libraries_are_explained(message, kind, words):
    told = translate(RuntimeError(message), "npu:0")
    assert type(told) is kind and words in str(told)
    assert translate(RuntimeError("anything else"), "npu") is None


@pytest.mark.model
def test_performance_of_the_devices_that_exist(tool, demo, tmp_path):
    words = ["--num_runs", 2, "--warmup", 1, "--new_tokens", 4, "--output", "p.md"]
    status = tool(performance, "--model_path", demo, "--image", GOLDEN / "title.png", "--devices", "npu", "cpu", *words)
    text = (tmp_path / "p.md").read_text()
    assert status == 0 and "|  | cpu |" in text and "- npu: absent. torch_npu is not installed" in text
    assert all(
        name in text
        for name in ("Average latency", "P50", "P99", "First token", "Tokens per second", "Peak memory", "Speed-up")
    )


def test_a_device_that_fails_does_not_cost_the_others_figures(tool, demo, tmp_path, monkeypatch, capsys):
    def timed(job: dict[str, object]) -> timing.Timing:
        if job["device"] == "npu":
            raise DeviceError("NPU out of memory")
        return timing.Timing("cpu", "simulated", "2.8.0", 1.0, 1.0, 1, 10, 4, [2.0], [1.0], 1 << 20)

    monkeypatch.setattr(performance, "time_device", timed)
    monkeypatch.setattr(performance, "available", lambda name: (Device("cpu"), ""))
    words = ["--model_path", demo, "--image", GOLDEN / "title.png", "--output", "p.md", "--devices"]
    assert tool(performance, *words, "cpu", "npu") == 1
    assert "- npu: failed. NPU out of memory" in (tmp_path / "p.md").read_text()
    written = json.loads((tmp_path / "p.json").read_text())
    assert [one["device"] for one in written["devices"]] == ["cpu"] and written["failed"] == {
        "npu": "NPU out of memory"
    }
    assert tool(performance, *words, "npu") == 4 and "npu: NPU out of memory" in capsys.readouterr().err


def test_a_first_token_is_that_of_one_image(monkeypatch, demo, tmp_path):
    """Runs of three images: the latency is a run's, the first token an image's."""
    times = iter([(9.0, 9.0)] * 3 + [(1.0, 2.0), (2.0, 3.0), (6.0, 8.0)])
    monkeypatch.setattr(timing, "time_inputs", lambda *_: next(times))
    monkeypatch.setattr(ReferenceModel, "inputs", lambda self, case: {"input_ids": torch.zeros(1, 5)})
    cases.save_cases(tmp_path / "cases", [case()] * 3)
    found = timing.measure(timing.Benchmark(str(demo), "cpu", "float32", str(tmp_path / "cases"), 1, 1, 4))
    assert found.first == [1.0, 2.0, 6.0] and found.total == [13.0]
    rates = performance.rates(found)
    assert [rates[f"first_token_{name}ms"] for name in ("", "p50_", "p99_")] == [3000, 2000, 6000]
    assert rates["average_ms"] == 13000 and rates["tokens_per_second"] == 9 / 4


def test_no_device_at_all(tool, demo, capsys):
    assert tool(performance, "--model_path", demo, "--image", GOLDEN / "title.png", "--devices", "npu") == 4
    assert "name one that is" in capsys.readouterr().err


def test_inference_on_an_npu_that_is_not_there(tool, demo, capsys):
    assert tool(inference, "--model_path", demo, "--image", GOLDEN / "title.png", "--device", "npu") == 3
    assert "torch_npu is not installed" in capsys.readouterr().err
