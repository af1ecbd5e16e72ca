# SPDX-License-Identifier: Apache-2.0
"""A VLM, or what stands in front of it, that is slow, refuses, cuts its answers or makes them up; see vlm_proxy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from chaos.bundle_project import Bundle
from chaos.faults.field import VLM_HANGS_UP, VLM_LIES, Action
from chaos.plan import Length, Step

SHARES = (0.3, 0.7, 1.0)
# A VLM that is away or late: nothing may be lost by it.
AWAY = ("slow", "drip", "html_502", "html_503", "hang")
LIES = ("truncate", "garbage", "shape", "lie_math", "lie_table", "lie_long", "lie_text")


def treat(mode: str) -> Callable:
    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        share = step.choose(list(SHARES))
        bundle.treat(mode, share)
        try:
            yield f"{share:.0%} of the requests"
        finally:
            bundle.treat("pass", 0)

    return begin


ACTIONS = {
    **{f"vlm {mode}": Action(treat(mode), Length(5, 30)) for mode in AWAY},
    "vlm reset": Action(treat("reset"), Length(5, 30), frozenset({VLM_HANGS_UP})),
    **{f"vlm {mode}": Action(treat(mode), Length(5, 20), frozenset({VLM_LIES})) for mode in LIES},
}
