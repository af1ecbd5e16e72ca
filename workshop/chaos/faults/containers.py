# SPDX-License-Identifier: Apache-2.0
"""Whole containers: killed, paused, restarted, and all at once as when the power fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from chaos.bundle_project import SERVICES, Bundle
from chaos.faults.field import PARSER_AWAY, WORKER_KILLED, Action
from chaos.plan import Length, Step

AWAY = frozenset({PARSER_AWAY, WORKER_KILLED})


def kill(*services: str) -> Callable:
    """`docker kill`, and start again. The engine would not: it takes this kill for the operator's wish."""

    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        found = [bundle.container(service) for service in services]
        bundle.docker("kill", *found, check=False)
        try:
            yield ", ".join(services)
        finally:
            bundle.docker("start", *found)

    return begin


def pause(service: str) -> Callable:
    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        found = bundle.container(service)
        bundle.docker("pause", found)
        try:
            yield service
        finally:
            bundle.docker("unpause", found, check=False)

    return begin


def restart(service: str) -> Callable:
    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        bundle.docker("restart", "--time", "10", bundle.container(service))
        yield service

    return begin


ACTIONS = {
    "container parser killed": Action(kill("parser"), Length(0, 10), AWAY),
    "container vlm killed": Action(kill("vlm"), Length(0, 20)),
    "container between them killed": Action(kill("proxy"), Length(3, 30)),
    "all containers killed": Action(kill(*SERVICES, "proxy"), Length(0, 10), AWAY),
    "container parser paused": Action(pause("parser"), Length(3, 20), AWAY),
    "container vlm paused": Action(pause("vlm"), Length(3, 40)),
    "container parser restarted": Action(restart("parser"), marks=AWAY),
}
