# SPDX-License-Identifier: Apache-2.0
"""The self-test that a container of the VLM passes before it takes the calls of a version (scripts/upgrade.sh)."""

from __future__ import annotations

import json
import subprocess

from bundle.compose import project
from bundle.compose.division import NEXT, NOW
from bundle.progress import last_line, say, step
from selftest.check import read_alike
from tool_errors import FAILED, ServiceError

SELFTEST_SECONDS = 900.0


def judge(service: str) -> None:
    """Golden blocks through each replica, and one with published weights in Chinese. Where no values are recorded for
    the weights, the other container must read that alike. Raises ServiceError where one computes something else."""
    with step(f"the self-test of {service}"):
        answer = ask_replicas(service, "selftest")
    if answer.returncode == FAILED and answer.stdout:
        failed = next((line for line in answer.stdout.splitlines() if line.startswith("FAIL")), "")
        raise ServiceError(f"{service} does not compute what was recorded for its weights: {failed}")
    text = one_block(service)
    if answer.returncode:
        compare(service, text)
        say(f"WARNING: {service} was judged by one block alone: {last_line(answer.stderr, answer.stdout)}")


def ask_replicas(service: str, module: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the self-test in a container, on all of its replicas."""
    words = ("exec", "-T", service, "python", "-m", module, "--replicas", project.REPLICAS)
    return project.compose(*words, timeout=SELFTEST_SECONDS)


def one_block(service: str) -> str:
    """What all replicas read on one golden block. Raises ServiceError where one reads nothing, or another text."""
    answer = ask_replicas(service, "selftest.read")
    try:
        found = json.loads(answer.stdout)
    except ValueError:
        raise ServiceError(f"{service} could not be asked to read: {last_line(answer.stderr, answer.stdout)}") from None
    if wrong := next((one for one in found if one["error"]), None):
        raise ServiceError(f"{service}, replica {wrong['replica']}: {wrong['error']}")
    return str(found[0]["text"])


def compare(service: str, text: str) -> None:
    """Raise ServiceError where the other container serves, and reads something else than `text`."""
    other = NOW if service == NEXT else NEXT
    if project.containers().get(other, {}).get("Health") != "healthy":
        return
    try:
        expected = one_block(other)
    except ServiceError as error:  # an older image has no such program
        say(f"WARNING: {service} reads {text[:80]!r}, and was compared with nothing: {error}")
        return
    if not read_alike(text, expected):
        raise ServiceError(f"{service} reads {text[:80]!r} where {other} reads {expected[:80]!r}")
