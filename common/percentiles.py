# SPDX-License-Identifier: Apache-2.0
"""Percentiles of what was measured, by the nearest rank: always a value that was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest of the values that at least ``percent`` percent of them do not exceed. There must be one."""
    return sorted(values)[max(0, math.ceil(percent * len(values) / 100) - 1)]
