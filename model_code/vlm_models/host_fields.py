# SPDX-License-Identifier: Apache-2.0
"""Inputs that stay on the host: each of our two vLLM versions wants to hear of them in another place.

What: 0.11 reads attributes of the model's class; 0.13 reads an argument of the field and refuses the attributes.
Why: the tower's sizes decide how it runs. On a device, each of them would be a synchronisation.
How: by the argument itself, not by a version's number.
When it can go: with the stack 0.11.1. Then the argument stands in `_get_mm_fields_config`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from vllm.multimodal.inputs import MultiModalFieldConfig

Model = TypeVar("Model", bound=type)
BY_FIELD = "keep_on_cpu" in inspect.signature(MultiModalFieldConfig.batched).parameters


def batched_on_host(modality: str) -> MultiModalFieldConfig:
    """A field with one entry for each item, whose tensor the model gets on the CPU."""
    options: dict[str, Any] = {"keep_on_cpu": True} if BY_FIELD else {}
    return MultiModalFieldConfig.batched(modality, **options)


def keeps_on_host(*fields: str) -> Callable[[Model], Model]:
    """Class decorator: name such fields by attributes of the model, where the fields cannot say it themselves."""

    def decorate(model: Model) -> Model:
        if not BY_FIELD:
            setattr(model, "merge_by_field_config", True)  # noqa: B010  (0.13 has no such attribute)
            setattr(model, "multimodal_cpu_fields", frozenset(fields))  # noqa: B010
        return model

    return decorate
