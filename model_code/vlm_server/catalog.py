# SPDX-License-Identifier: Apache-2.0
"""config/models.yaml as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .errors import SettingError

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Model:
    """One servable model. `path` and `demo` count from MODELS_DIR; `demo` is None where there are no demo weights.

    `demo_environment` holds environment variables for serving the demo weights.
    """

    name: str
    served_name: str
    path: str
    demo: str | None = None
    demo_environment: Mapping[str, Any] = field(default_factory=dict)
    arguments: Arguments = field(default_factory=dict)


@dataclass(frozen=True)
class Hardware:
    """What a kind of hardware adds: arguments of `vllm serve` and environment variables."""

    arguments: Arguments = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Catalog:
    """The whole file."""

    default: str
    models: Mapping[str, Model]
    hardware: Mapping[str, Hardware]
    common: Arguments
    environment: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path) -> Catalog:
        """Read and check the file; raises SettingError naming the key that is wrong."""
        try:
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingError(f"MODELS_CONFIG: {path} cannot be read: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise SettingError(f"MODELS_CONFIG: {path} is not YAML: {error}") from error
        section(data, "the file", {"default", "models", "common", "hardware", "environment"},
                {"default", "models", "hardware"})
        catalog = cls(
            default=data["default"],
            models={name: Model(name=name, **section(entry, f"models.{name}", MODEL_KEYS, {"served_name", "path"}))
                    for name, entry in data["models"].items()},
            hardware={name: Hardware(**section(entry, f"hardware.{name}", {"arguments", "environment"}))
                      for name, entry in data["hardware"].items()},
            common=data.get("common") or {},
            environment=data.get("environment") or {},
        )
        if catalog.default not in catalog.models:
            known = ", ".join(catalog.models)
            raise SettingError(f"models.yaml: default is {catalog.default!r}; expected one of {known}")
        return catalog


MODEL_KEYS = {"served_name", "path", "demo", "demo_environment", "arguments"}


def section(value: Any, where: str, known: set[str], required: set[str] = frozenset()) -> dict[str, Any]:
    """Check that `value` is a mapping with known keys only and all the required ones; returns it."""
    if not isinstance(value, dict):
        raise SettingError(f"models.yaml: {where} is {value!r}; expected a mapping")
    if unknown := set(value) - known:
        raise SettingError(f"models.yaml: {where} has the unknown key {min(unknown)!r}; "
                           f"expected {', '.join(sorted(known))}")
    if missing := required - set(value):
        raise SettingError(f"models.yaml: {where} lacks the key {min(missing)!r}")
    return value
