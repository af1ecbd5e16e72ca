# SPDX-License-Identifier: Apache-2.0
"""The operator's settings of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from declared_settings import choice, text

from .catalog import DEFAULT_FILE, Catalog

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class WeightSettings:
    """``vlm_model`` and ``layout_model_dir`` are None if unset; ``models_config`` is models.yaml."""

    models_dir: Path
    hardware: str
    vlm_model: str | None = None
    layout_model_dir: Path | None = None
    models_config: Path = DEFAULT_FILE

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> WeightSettings:
        """From MODELS_DIR, HARDWARE, VLM_MODEL, LAYOUT_MODEL_DIR and MODELS_CONFIG; empty means unset.

        Relative folders count from the repository, as compose counts them. Raises UsageError.
        """
        layout = env.get("LAYOUT_MODEL_DIR")
        return cls(
            models_dir=(REPOSITORY / text(env, "MODELS_DIR")).resolve(),
            hardware=choice(env, "HARDWARE"),
            vlm_model=env.get("VLM_MODEL") or None,
            layout_model_dir=REPOSITORY / layout if layout else None,
            models_config=(REPOSITORY / (env.get("MODELS_CONFIG") or DEFAULT_FILE)).resolve(),
        )

    @property
    def catalog(self) -> Catalog:
        """models.yaml. Raises UsageError."""
        return Catalog.load(self.models_config)
