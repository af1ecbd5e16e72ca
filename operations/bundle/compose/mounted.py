# SPDX-License-Identifier: Apache-2.0
"""Where the host has what settings name by its place in the containers, in which MODELS_DIR is /models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

import declared_settings
from bundle.paths import ROOT

MODELS = PurePath("/models")
# Settings that are paths inside the containers.
INSIDE = ("MODELS_CONFIG", "LAYOUT_MODEL_DIR")


def on_host(values: Mapping[str, str]) -> dict[str, str]:
    """The settings with paths below /models as they are here. Other paths stay: they are in an image, if anywhere."""
    models = ROOT / declared_settings.text(values, "MODELS_DIR")
    return {
        **values,
        **{
            name: str(models / path.relative_to(MODELS))
            for name in INSIDE
            if (path := PurePath(values.get(name) or "")).is_relative_to(MODELS)
        },
    }
