# SPDX-License-Identifier: Apache-2.0
"""The parser's clock jumps forward and back: what its programs are told by the C library (clock_shift.c).

Containers share the machine's clock, and setting that would reach everybody on it. What this cannot show: the times of
files, which are the kernel's; timers of the kernel that follow the clock of the day; programs that ask the kernel
themselves; and the other containers' clocks, which stay right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from chaos.bundle_project import Bundle
from chaos.faults.field import Action, NotNow
from chaos.plan import Length, Step

# Below PARSER_RESULT_URL_HOURS and PARSER_JOB_KEEP_HOURS, beyond which removing a job would be right.
HOUR = 3600
JUMPS = (30, 10 * 60, 2 * HOUR, 20 * HOUR)


def jump(sign: int) -> Callable:
    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        if not bundle.clock:
            raise NotNow("this machine has no C compiler (cc), so the clock was left alone")
        seconds = sign * step.choose(list(JUMPS))
        bundle.jump(seconds)
        try:
            yield f"{seconds:+d} s"
        finally:
            bundle.jump(0)

    return begin


ACTIONS = {
    "clock ahead": Action(jump(1), Length(5, 30)),
    "clock behind": Action(jump(-1), Length(5, 30)),
}
