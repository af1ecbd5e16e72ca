# SPDX-License-Identifier: Apache-2.0
"""From figures of positions to a verdict: totals, thresholds, and which positions are worst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .metrics import Positions

WORST = 10


@dataclass(frozen=True)
class Thresholds:
    """``mre`` and ``top1`` in percent, ``cosine`` a mean, ``logprob`` in nats."""

    mre: float = 1.0
    top1: float = 99.0
    cosine: float = 0.999
    logprob: float = 0.25


@dataclass(frozen=True)
class Worst:
    """A position worth looking at. ``where`` is image, prompt or answer; tokens are shown as text."""

    image: str
    position: int
    where: str
    token: str
    error: float
    cosine: float | None
    first: str
    candidate_first: str
    margin: float


@dataclass
class ImageFigures:
    """Totals of one image; what is not available is None.

    ``error`` is the relative error (a fraction) or, for a served candidate, the mean difference of log-probabilities
    (nats). ``answer_*`` count the positions that choose the answer.
    """

    name: str
    positions: int
    agreeing: int
    answer_positions: int
    answer_agreeing: int
    error: float
    cosine: float | None = None
    min_cosine: float | None = None
    not_finite: int = 0
    different_inputs: str = ""
    text: str = ""


@dataclass(frozen=True)
class Check:
    """One line of the verdict; ``passed`` is None for what is not available."""

    name: str
    wanted: str
    found: str
    passed: bool | None


@dataclass
class Verdict:
    """Everything a report says. ``served`` tells which of the two kinds of comparison it was; ``top``: of how many
    most probable tokens a served one's log-probabilities were compared."""

    images: list[ImageFigures] = field(default_factory=list)
    worst: list[Worst] = field(default_factory=list)
    served: bool = False
    top: int = 20

    def mean(self, values: Sequence[float]) -> float:
        """Mean over all positions of a figure of each image."""
        counts = [image.positions for image in self.images]
        return sum(value * count for value, count in zip(values, counts)) / max(1, sum(counts))

    @property
    def error(self) -> float:
        return self.mean([image.error for image in self.images])

    @property
    def top1(self) -> float:
        """Percent of positions with the same first choice."""
        return (
            100 * sum(image.agreeing for image in self.images) / max(1, sum(image.positions for image in self.images))
        )

    @property
    def cosine(self) -> float:
        return self.mean([image.cosine or 0.0 for image in self.images])

    def checks(self, thresholds: Thresholds) -> list[Check]:
        """A NaN passes nothing: every comparison below is false for it."""
        agreeing = sum(image.agreeing for image in self.images)
        positions = sum(image.positions for image in self.images)
        top1 = Check(
            "Top-1 agreement",
            f">= {thresholds.top1} %",
            f"{self.top1:.2f} % ({agreeing} of {positions} positions)",
            self.top1 >= thresholds.top1,
        )
        different = [image for image in self.images if image.different_inputs]
        inputs = Check("Same input tokens", "yes", different[0].different_inputs if different else "yes", not different)
        if self.served:
            return [
                inputs,
                Check("MRE", f"<= {thresholds.mre} %", "not available: a server gives no logits", None),
                top1,
                Check("Cosine similarity", f">= {thresholds.cosine}", "not available: a server gives no logits", None),
                Check(
                    f"Mean difference of log-probabilities, top {self.top}",
                    f"<= {thresholds.logprob}",
                    f"{self.error:.5f}",
                    self.error <= thresholds.logprob,
                ),
            ]
        bad = sum(image.not_finite for image in self.images)
        return [
            inputs,
            Check("Finite logits", "all", "all" if not bad else f"{bad} of {positions} positions are not", not bad),
            Check("MRE (eps 1e-3)", f"<= {thresholds.mre} %", percent(self.error), 100 * self.error <= thresholds.mre),
            top1,
            Check(
                "Cosine similarity", f">= {thresholds.cosine}", f"{self.cosine:.6f}", self.cosine >= thresholds.cosine
            ),
        ]

    def passed(self, thresholds: Thresholds) -> bool:
        return bool(self.images) and all(check.passed is not False for check in self.checks(thresholds))

    def keep_worst(self, further: list[Worst]) -> None:
        self.worst = sorted(self.worst + further, key=lambda worst: -worst.error)[:WORST]


def percent(value: float) -> str:
    """A fraction as percent; small ones in scientific notation."""
    if not math.isfinite(value):
        return "infinite"
    return f"{100 * value:.4f} %" if value == 0 or value >= 1e-6 else f"{100 * value:.2e} %"


def figures(name: str, positions: Positions, answer: int) -> ImageFigures:
    """Totals of an image whose prompt is followed by an answer of ``answer`` tokens. A position chooses the next one's
    token, so the answer is chosen by the positions from the prompt's last to the last but one; of a served candidate
    there are these alone."""
    count = len(positions.first)
    end = count - 1 if positions.cosine else count
    choosing = range(end - answer, end)
    return ImageFigures(
        name=name,
        positions=count,
        agreeing=positions.agreeing,
        answer_positions=answer,
        answer_agreeing=sum(map(positions.agrees, choosing)),
        error=sum(positions.error) / max(1, count),
        cosine=sum(positions.cosine) / count if positions.cosine else None,
        min_cosine=min(positions.cosine, default=None),
        not_finite=positions.finite.count(False),
    )
