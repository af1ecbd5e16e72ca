# SPDX-License-Identifier: Apache-2.0
"""What is said when the weights in use are not the published ones."""

from __future__ import annotations

from .weights import Weights


def demo_banner(weights: Weights) -> str:
    """A few lines that cannot be overlooked: demo weights, what they read, and where the real ones go."""
    home = weights.path.parent.parent / weights.model.path
    lines = (
        "DEMO WEIGHTS are in use: a small model of the same architecture, made by this project.",
        "It reads clean printed English. It is no substitute for the published PaddleOCR-VL.",
        f"The published weights go to {home}",
    )
    width = max(map(len, lines)) + 4
    return "\n".join(("=" * width, *(f"  {line}" for line in lines), "=" * width))
