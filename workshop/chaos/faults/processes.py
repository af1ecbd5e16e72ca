# SPDX-License-Identifier: Apache-2.0
"""Killing and stopping processes from outside their containers, the containers' first processes included."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from chaos.bundle_project import SERVICES, STEADY, Bundle
from chaos.faults.field import PARSER_AWAY, WORKER_KILLED, Action, NotNow
from chaos.plan import Length, Step

# The roles that every bundle has. `any process` reaches those that come and go.
ROLES = {
    "vlm": ("supervisord", "balancer", "metrics", "watchdog", "guard", "engine", "api server"),
    "parser": ("supervisord", "guard", "parser", "worker"),
}
STOP = Length(3, 40)


def target(bundle: Bundle, service: str, name: str, step: Step) -> int:
    found = bundle.roles(service).get(name)
    if not found:
        raise NotNow(f"{service} runs no {name}")
    return step.choose(found)


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill(service: str, name: str) -> Callable:
    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        pid = target(bundle, service, name, step)
        send(pid, signal.SIGKILL)
        yield f"{service}: {name} {pid}"

    return begin


def stop(service: str, name: str) -> Callable:
    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        pid = target(bundle, service, name, step)
        send(pid, signal.SIGSTOP)
        try:
            yield f"{service}: {name} {pid}"
        finally:
            send(pid, signal.SIGCONT)

    return begin


@contextlib.contextmanager
def kill_any(bundle: Bundle, step: Step) -> Iterator[str]:
    """Any process of both containers, drawn from all that run now."""
    running = [(service, name, pid) for service in SERVICES for name, pid in flat(bundle.roles(service))]
    if not running:
        raise NotNow("nothing runs")
    service, name, pid = step.choose(running)
    send(pid, signal.SIGKILL)
    yield f"{service}: {name} {pid}"


@contextlib.contextmanager
def kill_helper(bundle: Bundle, step: Step) -> Iterator[str]:
    """One of the processes that the parser starts for a piece of work: rendering, conversion."""
    running = [(name, pid) for name, pid in flat(bundle.roles("parser")) if name not in STEADY]
    if not running:
        raise NotNow("the parser has no helper now")
    name, pid = step.choose(running)
    send(pid, signal.SIGKILL)
    yield f"parser: {name} {pid}"


def flat(roles: dict[str, list[int]]) -> list[tuple[str, int]]:
    return [(name, pid) for name, pids in roles.items() for pid in pids]


def marks(service: str) -> frozenset[str]:
    return frozenset({PARSER_AWAY, WORKER_KILLED} if service == "parser" else ())


ACTIONS = {
    **{
        f"kill {service} {name}": Action(kill(service, name), marks=marks(service))
        for service, names in ROLES.items()
        for name in names
    },
    "kill parser helper": Action(kill_helper, marks=marks("parser")),
    "kill any process": Action(kill_any, marks=marks("parser")),
    **{
        f"stop {service} {name}": Action(stop(service, name), STOP, marks(service))
        for service, name in (("vlm", "engine"), ("vlm", "balancer"), ("parser", "parser"), ("parser", "worker"))
    },
}
