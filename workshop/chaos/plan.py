# SPDX-License-Identifier: Apache-2.0
"""What is done to the bundle and in which order. The same seed gives the same plan."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Length:
    """How long an action's trouble lasts, in seconds; both 0 for an action that is over at once."""

    least: float = 0.0
    most: float = 0.0


@dataclass(frozen=True)
class Step:
    """One action. `seconds`: how long its trouble lasts. `pick` (0 <= pick < 1) chooses where an action has a choice.

    `gap_s` is the pause before it. `calm` says that the bundle must be ready again before it begins; otherwise it meets
    what the step before it left.
    """

    number: int
    action: str
    seconds: float
    pick: float
    gap_s: float
    calm: bool

    def choose(self, choices: list[Any]) -> Any:
        """One of the choices, which must not be empty."""
        return choices[int(self.pick * len(choices))]


CALM_SHARE = 0.75
LONGEST_GAP_S = 6.0


def steps(seed: int, groups: Mapping[str, Mapping[str, Length]]) -> Iterator[Step]:
    """An endless plan: every action of every group once, in random order, then all again in another order.

    The actions of a group are spread over the round, so that a short run meets every group.
    """
    chance, number = random.Random(f"plan-{seed}"), 0
    while True:
        for action, length in one_round(chance, groups):
            yield Step(
                number,
                action,
                round(chance.uniform(length.least, length.most), 1),
                chance.random(),
                round(chance.uniform(0.5, LONGEST_GAP_S), 1),
                chance.random() < CALM_SHARE,
            )
            number += 1


def one_round(chance: random.Random, groups: Mapping[str, Mapping[str, Length]]) -> list[tuple[str, Length]]:
    placed = []
    for name in sorted(groups):
        actions = sorted(groups[name].items())
        chance.shuffle(actions)
        placed += [((place + chance.random()) / len(actions), action) for place, action in enumerate(actions)]
    return [action for _, action in sorted(placed, key=lambda pair: pair[0])]
