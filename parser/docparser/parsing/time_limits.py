# SPDX-License-Identifier: Apache-2.0
"""Ends what takes too long: a page, a step of a page on the CPU, a worker that does not end a cancelled task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from docparser.errors import PageTimeout, StepTooSlow
from docparser.parsing.pool import PooledWorker, WorkerPool
from docparser.parsing.turns import QueuedTask
from docparser.settings import Settings

log = logging.getLogger(__name__)

CANCEL_GRACE_S = 20.0  # a worker that has not ended a cancelled task by then is stuck


class TimeLimits:
    def __init__(self, settings: Settings, pool: WorkerPool, cancel: Callable[[QueuedTask], None]) -> None:
        self._settings, self._pool, self._cancel = settings, pool, cancel

    def check(self, assigned: Mapping[int, QueuedTask]) -> None:
        """``assigned``: the tasks that workers have, by number."""
        now, limit_s = time.monotonic(), self._settings.page_timeout_s
        for item in list(assigned.values()):
            if item.cancelled_at is None and now - item.assigned_at > limit_s:
                item.resolve(PageTimeout(f"The page was given up after {limit_s:.0f} s (PARSER_PAGE_TIMEOUT_S)."))
                self._cancel(item)
        for worker in self._pool.workers:
            self._check_worker(worker, assigned, now)

    def _check_worker(self, worker: PooledWorker, assigned: Mapping[int, QueuedTask], now: float) -> None:
        if worker.process is None:
            return
        slot, limit_s = worker.process.slot, self._settings.step_timeout_s
        computing = assigned.get(slot.task)
        cancelled = [item.cancelled_at for item in assigned.values() if item.worker is worker]
        if computing is not None and slot.held_s > limit_s:
            words = f"file: one step of the page took more than {limit_s:.0f} s (PARSER_STEP_TIMEOUT_S)"
            computing.resolve(StepTooSlow(words))
            log.error("worker-%d: stuck in a step of task %d; it is replaced", worker.number, computing.number)
            worker.kill()
        elif any(since is not None and now - since > CANCEL_GRACE_S for since in cancelled) and not slot.task:
            log.error("worker-%d: does not end a cancelled task; it is replaced", worker.number)
            worker.kill()
