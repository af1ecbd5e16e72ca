# SPDX-License-Identifier: Apache-2.0
"""Chat templates of the plugin, rendered as vLLM does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

import vlm_models


def rendered(template: str, messages: list[dict[str, Any]], **values: Any) -> str:
    """The prompt that a file of `vlm_models` makes of messages, in transformers' environment."""

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    text = (Path(vlm_models.__file__).parent / template).read_text()
    return environment.from_string(text).render(messages=messages, **values)
