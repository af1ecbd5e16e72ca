# SPDX-License-Identifier: Apache-2.0
"""How sure the VLM was of a text, from the log-probabilities of its tokens (decision 0224)."""

from __future__ import annotations

import math
from typing import Any

# vLLM's fields: the sampled token's own log-probability, and no other token's.
ASKED = {"logprobs": True, "top_logprobs": 0}
LEAST, ROUNDING = -10_000.0, 1e-3  # vLLM writes -9999 for none; log-softmax in single precision may end above 0


class TokenProbabilities:
    """Collects them, from events or from a completion in one piece."""

    def __init__(self) -> None:
        self._logs: list[float] = []
        self._understood = True

    def add(self, choice: dict[str, Any]) -> None:
        """Take what ``choice`` of a completion or of an event says. One thing that is no log-probability makes all of
        them worthless; it is no error, because the text is there without it."""
        try:
            entries = (choice.get("logprobs") or {}).get("content") or ()
            logs = [entry["logprob"] for entry in entries]
            if not all(type(log) in (float, int) and LEAST <= log <= ROUNDING for log in logs):
                raise TypeError
        except (AttributeError, KeyError, TypeError):
            self._understood = False
        else:
            self._logs += logs

    @property
    def confidence(self) -> float | None:
        """From 0 to 1; None where the server gave none that can be used."""
        if not self._logs or not self._understood:
            return None
        return confidence_of(self._logs)


def confidence_of(logs: list[float]) -> float:
    """The geometric mean of the tokens' probabilities; ``logs`` are natural logarithms, at least one."""
    return min(1.0, math.exp(sum(logs) / len(logs)))
