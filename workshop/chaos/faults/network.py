# SPDX-License-Identifier: Apache-2.0
"""The network between the services: taken away, so that names and addresses vanish, or silent, so that packets do."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator

from chaos.bundle_project import Bundle
from chaos.faults.field import Action, NotNow
from chaos.plan import Length, Step

VLM_PORT = "8000"
CUT = Length(3, 40)


def disconnect(service: str) -> Callable:
    """`docker network disconnect`, and connect again under the same name."""

    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        found = bundle.container(service)
        bundle.docker("network", "disconnect", bundle.network(), found)
        try:
            yield f"{service} has no network"
        finally:
            bundle.docker("network", "connect", "--alias", service, bundle.network(), found)

    return begin


def rule(pid: int, word: str) -> subprocess.CompletedProcess[str]:
    """Add (-I) or remove (-D) a rule in a container's own network namespace: packets to a VLM's port vanish."""
    words = ["nsenter", "--target", str(pid), "--net", "iptables", "-w", "5", word, "OUTPUT", "-p", "tcp"]
    command = [*words, "--dport", VLM_PORT, "-j", "DROP"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def silence(service: str) -> Callable:
    """A container that restarts meanwhile has a new namespace, without the rule."""

    @contextlib.contextmanager
    def begin(bundle: Bundle, step: Step) -> Iterator[str]:
        pid = bundle.first_process(service)
        if not pid or (done := rule(pid, "-I")).returncode:
            raise NotNow(f"{service}: {done.stderr.strip() if pid else 'it does not run'}")
        try:
            yield f"packets of {service} to port {VLM_PORT} vanish"
        finally:
            if pid == bundle.first_process(service):
                rule(pid, "-D")

    return begin


ACTIONS = {
    "network of vlm taken away": Action(disconnect("vlm"), CUT),
    "network of the one between taken away": Action(disconnect("proxy"), CUT),
    "packets of parser vanish": Action(silence("parser"), CUT),
    "packets of the one between vanish": Action(silence("proxy"), CUT),
}
