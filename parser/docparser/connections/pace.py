# SPDX-License-Identifier: Apache-2.0
"""Whether bytes move at the least rate, from one window of time to the next."""

from __future__ import annotations


class Pace:
    """At least ``rate`` bytes a second on average over each ``window_s`` seconds.

    A window, not the average since the beginning: who sent much at first could otherwise be silent for days.
    """

    def __init__(self, rate: int, window_s: float) -> None:
        self._least = rate * window_s  # bytes in a window
        self._window_s = window_s
        self._began = 0.0
        self._moved = 0

    def restart(self, now: float, moved: int) -> None:
        """A window begins; ``moved`` bytes have moved in all so far."""
        self._began, self._moved = now, moved

    def too_slow(self, now: float, moved: int) -> bool:
        """Judges the window if it is over, and begins the next one."""
        if now - self._began < self._window_s:
            return False
        slow = moved - self._moved < self._least
        self.restart(now, moved)
        return slow
