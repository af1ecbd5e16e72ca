# SPDX-License-Identifier: Apache-2.0
"""The command line and the environment of `vllm serve`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import declared_settings
from atlas import Product
from declared_settings.vlm_args import means
from served_weights.vlm import VlmWeights
from tool_errors import UsageError
from vlm_models.video.bounds import VideoBounds

from .cache_size import greatest_length, request_gib
from .host import Host
from .serving import Serving
from .settings import Settings
from .words import last_value, mapping, whole

# The middleware that asks for keys, as models.yaml names it.
GATE = "vlm_models.middleware.ChatOnly"
# vllm-ascend's own settings.
ADDED = "--additional-config"
# What the plugin bounds videos by.
MEDIA = "--media-io-kwargs"


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """Arguments of models.yaml as command-line words: true -> `--name`, false -> nothing, a list -> several words,
    a mapping -> JSON."""
    words: list[str] = []
    for name, value in arguments.items():
        if value is False or value is None:
            continue
        words.append(f"--{name}")
        if isinstance(value, list):
            words += map(str, value)
        elif value is not True:
            words.append(json.dumps(value) if isinstance(value, dict) else str(value))
    return words


def build_command(settings: Settings, serving: Serving, weights: VlmWeights, extra: list[str]) -> list[str]:
    """argv of the server; VLM_ARGS, then `extra` words, are appended, so that they win over models.yaml."""
    model, hardware = serving.models[weights.model.name], serving.hardware[settings.weights.hardware]
    merged = {**serving.common, **model.arguments, **hardware.arguments}
    if model.sampling:
        merged["override-generation-config"] = dict(model.sampling)
    if settings.enforce_eager or (settings.product and not settings.product.graphs):
        merged["enforce-eager"] = True
    if settings.memory_utilization is not None:
        merged["gpu-memory-utilization"] = settings.memory_utilization
    if settings.graph_mode is not None:
        merged["compilation-config"] = {**merged.get("compilation-config", {}), "cudagraph_mode": settings.graph_mode}
    if settings.logs:
        # From 0.23.0 on vllm-ascend writes its log to files too, without an end, and below HOME, which is memory in our
        # containers. The watchdog bounds this folder.
        merged["additional-config"] = {**merged.get("additional-config", {}), "ascend_log_path": str(settings.logs)}
    if settings.precision == "bfloat16":
        merged["dtype"] = settings.precision
    added = beside(ADDED, merged.pop(ADDED.removeprefix("--"), {}), settings.arguments)
    command = [
        str(Path(sys.executable).with_name("vllm")),
        "serve",
        str(weights.path),
        "--host",
        settings.host,
        "--port",
        str(settings.port),
        "--served-model-name",
        # Names of this very model, never of another version: the server answers 404 to a request for one.
        *dict.fromkeys((weights.model.served_name, weights.model.name)),
        # Pinned: a checkpoint's own template may insert image tokens where there is no image.
        "--chat-template",
        str(model.chat_template_file),
        "--chat-template-content-format",
        "openai",
        *(["--otlp-traces-endpoint", settings.traces_to] if settings.traces_to else []),
        *flags(derived_from(settings).fill(merged)),
        *settings.arguments,
        *added,
        *extra,
    ]
    return [*command, *shares_of_a_die(command, settings.replicas_per_die)] if settings.product else command


def beside(option: str, own: Mapping[str, Any], arguments: Sequence[str]) -> list[str]:
    """Words that give `option` the keys of VLM_ARGS and, where those do not name them, our `own`: of several mappings
    vLLM takes the last one whole. Raises UsageError."""
    keys = [word.partition("=")[0].partition(".")[2] for word in arguments if means(word, [option]) and "." in word]
    if any(keys):  # `OPTION.KEY VALUE`, which vLLM adds up, and takes before a whole mapping
        own = {key: value for key, value in own.items() if key not in keys}
        return [
            f"{option}.{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in own.items()
        ]
    text = last_value(arguments, option)
    try:
        said = json.loads(text) if text else {}
    except ValueError:
        said = text
    if not isinstance(said, dict):
        raise UsageError(f"VLM_ARGS has {option} {text!r}; expected a JSON object")
    return [option, json.dumps({**own, **said})] if own or said else []


def derived_from(settings: Settings) -> Host:
    """What `derived` is taken from: this machine, with the product's own number format on Ascend."""
    host = Host.measure()
    return replace(host, dtype=settings.product.dtype) if settings.product else host


def check_dtype(product: Product, command: Sequence[str]) -> None:
    """Raise UsageError where VLM_ARGS or models.yaml name a number format that this product does not multiply."""
    dtype = last_value(command, "--dtype")
    if not product.float32 and dtype not in (product.dtype, "half"):
        raise UsageError(
            f"--dtype is {dtype!r} (VLM_ARGS, models.yaml); expected {product.dtype}: a {product.title} supports no "
            "other"
        )


def check_videos(command: Sequence[str]) -> None:
    """Raise UsageError for bounds of videos that the plugin does not take: it would say so at each request."""
    video = mapping(command, MEDIA).get("video") or {}
    try:
        if not isinstance(video, dict):
            raise ValueError(f"{MEDIA} video: {video!r} is no JSON object")
        VideoBounds.from_options(video)
    except ValueError as error:
        raise UsageError(f"{error} (VLM_ARGS, models.yaml)") from error


def shares_of_a_die(command: Sequence[str], replicas: int) -> list[str]:
    """Further words for several servers on one die, which divide what the command says of the die, whoever says it:
    the blocks of the key-value cache, and the requests computed at once.

    gpu-memory-utilization stays whole here: `die_memory` divides it for the stacks that want that. Raises UsageError.
    """
    words = []
    for name in ("--num-gpu-blocks-override", "--max-num-seqs") if replicas > 1 else ():
        if found := whole(command, name, 0):
            words += [name, str(max(1, found // replicas))]
    return words


def max_num_seqs(command: Sequence[str]) -> int:
    """How many requests a server with this command line computes at once: the last `--max-num-seqs`, vLLM's 128 else.

    Raises UsageError.
    """
    return whole(command, "--max-num-seqs", 128)


def build_environment(
    settings: Settings, serving: Serving, weights: VlmWeights, env: Mapping[str, str], command: Sequence[str]
) -> dict[str, str]:
    """Environment of the server with this command: models.yaml's values, overridden by what `env` already holds."""
    defaults = {**serving.environment, **serving.hardware[settings.weights.hardware].environment}
    if weights.demo:
        defaults.update(serving.models[weights.model.name].demo_environment)
    whole_host, config = Host.measure(), weights.path / "config.json"
    host = replace(
        whole_host,
        memory=whole_host.memory // declared_settings.whole(env, "VLM_REPLICAS"),
        request_gib=request_gib(config, last_value(command, "--dtype"), greatest_length(command)),
    )
    own = {name: str(value) for name, value in host.fill(defaults).items()}
    attention = env.get("VLM_ATTENTION") or (settings.product.attention if settings.product else "")
    chosen = {"VLM_ATTENTION": attention} if attention else {}
    return {**own, **env, **chosen, **(traces(env) if settings.traces_to else {})}


def traces(env: Mapping[str, str]) -> dict[str, str]:
    """How OpenTelemetry's library traces in vLLM: by HTTP, where vLLM's usual is gRPC, and only what belongs to a trace
    of the parser: not the probes."""
    return {
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": f"{env.get('OTEL_SERVICE_NAME') or 'paddleocr-vl'}-vlm",
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",
    }
