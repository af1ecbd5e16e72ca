# SPDX-License-Identifier: Apache-2.0
"""What is said when the weights in use are not the published ones."""

from __future__ import annotations

from served_weights.settings import WeightSettings
from served_weights.vlm import VlmWeights, there


def choice(weights: VlmWeights, settings: WeightSettings) -> str:
    """One line: which model is served where VLM_MODEL is unset, and what else lies there or is newer."""
    recommended = settings.catalog.recommended
    others = [model.name for model in there(settings) if model != weights.model]
    said = f"weights: {weights.model.name}, since VLM_MODEL is unset"
    if others:
        said += f"; {', '.join(others)} is there too, and older"
    elif weights.model != recommended:
        said += f"; {recommended.name} is newer (scripts/fetch_weights.sh hf)"
    return said


def demo_banner(weights: VlmWeights, settings: WeightSettings) -> str:
    """A few lines that cannot be overlooked: demo weights, what they read, and where the published ones go."""
    lines = (
        "DEMO WEIGHTS are in use: a small model of the same architecture, made by this project.",
        "It reads clean printed English. It is no substitute for the published PaddleOCR-VL.",
        f"The published weights go to {settings.models_dir / settings.catalog.recommended.path}",
    )
    width = max(map(len, lines)) + 4
    return "\n".join(("=" * width, *(f"  {line}" for line in lines), "=" * width))
