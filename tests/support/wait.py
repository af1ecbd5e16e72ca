# SPDX-License-Identifier: Apache-2.0
"""Waiting for something that another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable

# No test depends on how long a wait takes. The limit only ends a run that hangs; two busy cores load Paddle slowly.
WAIT_S = 480


def wait_for(condition: Callable[[], object], seconds: float = WAIT_S, what: str = "") -> None:
    """Poll until the condition holds; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain{what and f' for: {what}'}"
        time.sleep(0.05)
