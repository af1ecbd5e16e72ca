# SPDX-License-Identifier: Apache-2.0
"""What is said when the weights in use are not the published ones."""

from __future__ import annotations

from pathlib import Path

from served_weights.vlm import VlmWeights


def demo_banner(weights: VlmWeights, models_dir: Path) -> str:
    """A few lines that cannot be overlooked: demo weights, what they read, and where the published ones go."""
    lines = (
        "DEMO WEIGHTS are in use: a small model of the same architecture, made by this project.",
        "It reads clean printed English. It is no substitute for the published PaddleOCR-VL.",
        f"The published weights go to {models_dir / weights.model.path}",
    )
    width = max(map(len, lines)) + 4
    return "\n".join(("=" * width, *(f"  {line}" for line in lines), "=" * width))
