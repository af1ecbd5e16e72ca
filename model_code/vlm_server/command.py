# SPDX-License-Identifier: Apache-2.0
"""The command line and the environment of `vllm serve`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vlm_models.paddleocr_vl.chat_template import chat_template_path

from .catalog import Catalog
from .host import Host
from .settings import Settings
from .weights import Weights


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


def build_command(settings: Settings, catalog: Catalog, weights: Weights, extra: list[str]) -> list[str]:
    """argv of the server; `extra` words are appended, so that they win over models.yaml."""
    merged = {**catalog.common, **weights.model.arguments, **catalog.hardware[settings.hardware].arguments}
    if settings.enforce_eager:
        merged["enforce-eager"] = True
    if settings.memory_utilization is not None:
        merged["gpu-memory-utilization"] = settings.memory_utilization
    return [
        str(Path(sys.executable).with_name("vllm")), "serve", str(weights.path),
        "--host", settings.host, "--port", str(settings.port),
        "--served-model-name", weights.model.served_name,
        # Pinned: a checkpoint's own template may insert image tokens where there is no image.
        "--chat-template", str(chat_template_path()), "--chat-template-content-format", "openai",
        *flags(Host.measure().fill(merged)), *extra,
    ]


def build_environment(
    settings: Settings, catalog: Catalog, weights: Weights, env: Mapping[str, str]
) -> dict[str, str]:
    """Environment of the server: models.yaml's values, overridden by what `env` already holds."""
    defaults = {**catalog.environment, **catalog.hardware[settings.hardware].environment}
    if weights.demo:
        defaults.update(weights.model.demo_environment)
    return {**{name: str(value) for name, value in Host.measure().fill(defaults).items()}, **env}
