# SPDX-License-Identifier: Apache-2.0
"""scripts/upgrade.sh: another version of the VLM on half of the dies while the others serve; promote it or go back.

`vlm-next` (compose.yaml) is a container like `vlm`, but of the image that compose names now. Each uses one half of the
same dies. When its replicas have passed the self-test, it gets the name `vlm` in the internal network too, and the
parser's calls go to both (decision 0415).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from bundle import readiness
from bundle.compose import project
from bundle.progress import say, step
from tool_errors import FAILED, ServiceError, UsageError, run

NOW, NEXT = "vlm", "vlm-next"
PYTHON = "/opt/venv/supervisor/bin/python"
VOLUME = "vlm-next-state"
LOAD_SECONDS, DRAIN_SECONDS, SELFTEST_SECONDS, STOP_SECONDS = 1800.0, 700.0, 900.0, 180.0
PAUSE_SECONDS = 2


def inspect(name: str) -> dict[str, Any]:
    """What the engine knows of a container, by id. Raises ServiceError."""
    answer = project.docker("inspect", name)
    if answer.returncode:
        raise ServiceError(f"docker inspect {name}: {answer.stderr.strip()}")
    return json.loads(answer.stdout)[0]


def must(*words: str, timeout: float = project.SECONDS) -> str:
    """Output of `docker compose WORDS`. Raises ServiceError with its last line."""
    answer = project.compose("--profile", "upgrade", *words, timeout=timeout)
    if answer.returncode:
        lines = (answer.stderr.strip() or answer.stdout.strip() or "no message").splitlines()
        raise ServiceError(f"docker compose {' '.join(words[:2])}: {lines[-1]}")
    return answer.stdout


def take(half: str) -> None:
    """Let `vlm` use a half of its dies, or all; returns when what it gives up has finished."""
    with step(f"vlm uses {'all of its dies' if half == 'all' else f'the {half} half of its dies'}"):
        must("exec", "-T", NOW, PYTHON, "-m", "container.take_half", half, timeout=DRAIN_SECONDS)


def start_container(service: str, seconds: float) -> None:
    """Make a service's container from the image that compose names now, and wait until all its replicas answer.

    Raises ServiceError where the container ends, or the time is over.
    """
    must("up", "--detach", "--no-build", "--no-deps", service, timeout=STOP_SECONDS)
    deadline = time.monotonic() + seconds
    with step(f"{service} loads its weights") as ticker:
        while True:
            row = project.containers().get(service, {})
            if row.get("State") != "running":
                lines = must("logs", "--no-log-prefix", "--tail", "40", service).splitlines()
                raise ServiceError(f"the container {service} ended: {readiness.likely_cause(lines)}")
            answer = project.compose("exec", "-T", service, PYTHON, "-m", "container.status")
            if answer.returncode == 0:
                found = json.loads(answer.stdout)
                up = sum(replica["up"] for replica in found["replicas"])
                if up == found["configured"]:
                    return
                ticker.detail = f"{up} of {found['configured']} replicas answer"
            if time.monotonic() >= deadline:
                raise ServiceError(f"not all replicas of {service} answered within {seconds:.0f} s (--timeout)")
            time.sleep(PAUSE_SECONDS)


def judge(service: str) -> None:
    """Golden blocks through each replica. Raises ServiceError where one computes something else."""
    words = ("exec", "-T", service, "python", "-m", "selftest", "--replicas", "/run/paddleocr-vl/replicas.json")
    with step(f"the self-test of {service}"):
        answer = project.compose(*words, timeout=SELFTEST_SECONDS)
    if answer.returncode == FAILED and answer.stdout:
        failed = next((line for line in answer.stdout.splitlines() if line.startswith("FAIL")), "")
        raise ServiceError(f"{service} does not compute what was recorded for its weights: {failed}")
    if answer.returncode:
        say(f"WARNING: {service} was not judged: {(answer.stderr.strip().splitlines() or ['no message'])[-1]}")


def join(container: str) -> None:
    """Give the container the name `vlm` in its network, beside its own. Raises ServiceError."""
    (network,) = inspect(container)["NetworkSettings"]["Networks"]
    for words in (("disconnect",), ("connect", "--alias", NOW, "--alias", NEXT)):
        answer = project.docker("network", *words, network, container)
        if answer.returncode:
            raise ServiceError(f"docker network {words[0]}: {answer.stderr.strip()}")


def remove_next() -> None:
    """End `vlm-next` after its requests, with its volume."""
    row = project.containers().get(NEXT)
    if row is None:
        return
    with step(f"{NEXT} finishes its requests and ends"):
        must("rm", "--stop", "--force", NEXT, timeout=STOP_SECONDS)
        project.docker("volume", "rm", f"{row['Project']}_{VOLUME}")


def start(seconds: float) -> None:
    rows = project.containers()
    if NEXT in rows:
        raise UsageError(f"{NEXT} is there already; scripts/upgrade.sh promote, or back")
    if rows.get(NOW, {}).get("Health") != "healthy":
        raise UsageError("vlm is not healthy; an upgrade by halves needs a VLM that serves (scripts/status.sh)")
    (image,) = must("config", "--images", NOW).split()
    answer = project.docker("image", "inspect", "--format", "{{.Id}}", image)
    if answer.returncode:
        raise UsageError(f"{image} is not there; docker compose build, or scripts/offline_bundle.sh load")
    if inspect(rows[NOW]["ID"])["Image"] == answer.stdout.strip():
        raise UsageError(f"vlm runs {image} already; build or load another version first")
    take("first")
    start_container(NEXT, seconds)
    judge(NEXT)
    join(project.containers()[NEXT]["ID"])
    say(f"both versions serve, {image} on the second half of the dies. Next: scripts/upgrade.sh promote, or back")


def promote(seconds: float) -> None:
    if NEXT not in project.containers():
        raise UsageError(f"there is no {NEXT}; scripts/upgrade.sh start comes first")
    start_container(NOW, seconds)
    judge(NOW)
    remove_next()
    take("all")
    say("vlm is the new version; its second half loads (scripts/status.sh --wait-all)")


def back() -> None:
    rows = project.containers()
    if NEXT in rows and rows.get(NOW, {}).get("Health") != "healthy":
        raise UsageError(
            f"vlm does not serve, {NEXT} does; first bring the version before: tag its image back, then "
            "docker compose up -d --no-build --no-deps --wait vlm"
        )
    remove_next()
    take("all")
    say("vlm has all dies; those of the second half load (scripts/status.sh --wait-all)")


def main(words: list[str]) -> int:
    arguments = argparse.ArgumentParser(
        prog="scripts/upgrade.sh", description=__doc__.partition(": ")[2].split("\n")[0]
    )
    arguments.add_argument("verb", choices=("start", "promote", "back"))
    arguments.add_argument(
        "--timeout", type=float, default=LOAD_SECONDS, metavar="SECONDS", help="for loading; default %(default).0f"
    )
    options = arguments.parse_args(words)
    try:
        if options.verb == "back":
            back()
        else:
            {"start": start, "promote": promote}[options.verb](options.timeout)
    except ServiceError:
        say("the other half goes on serving; scripts/upgrade.sh back ends the attempt")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
