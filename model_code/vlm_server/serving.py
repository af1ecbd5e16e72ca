# SPDX-License-Identifier: Apache-2.0
"""How config/models.yaml says that models are served: arguments of `vllm serve` and environment variables.

Which models there are, and where their weights lie, is read from the same file by ``served_weights.catalog``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from served_weights import catalog
from tool_errors import UsageError

Arguments = Mapping[str, Any]
MODEL_KEYS = {*catalog.KEYS, "demo_environment", "arguments"}


@dataclass(frozen=True)
class ModelServing:
    """What one model adds; `demo_environment` holds environment variables for its demo weights."""

    demo_environment: Mapping[str, Any] = field(default_factory=dict)
    arguments: Arguments = field(default_factory=dict)


@dataclass(frozen=True)
class HardwareServing:
    """What a kind of hardware adds."""

    arguments: Arguments = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Serving:
    """config/models.yaml without its weights. `models` and `hardware` map names to what each adds."""

    models: Mapping[str, ModelServing]
    hardware: Mapping[str, HardwareServing]
    common: Arguments
    environment: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path) -> Serving:
        """Read and check the file. Raises UsageError naming the key that is wrong."""
        data = section(
            catalog.read(path),
            "the file",
            {"default", "models", "common", "hardware", "environment"},
            {"default", "models", "hardware"},
        )
        models = {
            name: section(entry, f"models.{name}", MODEL_KEYS, {"served_name", "path"})
            for name, entry in section(data["models"], "models").items()
        }
        catalog.Catalog.from_data(data)  # checks the keys of the weights
        hardware = {
            name: section(entry, f"hardware.{name}", {"arguments", "environment"})
            for name, entry in section(data["hardware"], "hardware").items()
        }
        return cls(
            models={
                name: ModelServing(**{key: value for key, value in entry.items() if key not in catalog.KEYS})
                for name, entry in models.items()
            },
            hardware={name: HardwareServing(**entry) for name, entry in hardware.items()},
            common=data.get("common") or {},
            environment=data.get("environment") or {},
        )


def section(
    value: Any, where: str, known: set[str] | None = None, required: frozenset[str] | set[str] = frozenset()
) -> dict[str, Any]:
    """Check that `value` is a mapping with known keys only (None: any) and all the required ones; returns it."""
    if not isinstance(value, dict):
        raise UsageError(f"models.yaml: {where} is {value!r}; expected a mapping")
    if known is not None and (unknown := set(value) - known):
        raise UsageError(
            f"models.yaml: {where} has the unknown key {min(unknown)!r}; expected {', '.join(sorted(known))}"
        )
    if missing := required - set(value):
        raise UsageError(f"models.yaml: {where} lacks the key {min(missing)!r}")
    return value
