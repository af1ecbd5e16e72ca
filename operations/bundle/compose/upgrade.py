# SPDX-License-Identifier: Apache-2.0
"""scripts/upgrade.sh: another version of the VLM on half of the dies while the others serve; promote it or go back.

`vlm-next` (compose.yaml) is a container like `vlm`, but of the image that compose names now. Each uses one half of the
dies. When its replicas have passed the self-test, it gets the name `vlm` in the internal network too, and the parser's
calls go to both (decision 0415).

Where the dies may be shared (on CPU; on Ascend with device-share on), both containers see all dies, and `vlm` gives up
a half without being made anew. Where a die belongs to one container, each gets the device files of its half only, and
the two stay, so that `vlm` is made anew once and not for every upgrade.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import declared_settings
from bundle import readiness
from bundle.compose import dies, project, served_model
from bundle.paths import VALUES
from bundle.progress import say, step
from tool_errors import FAILED, ServiceError, UsageError, run

NOW, NEXT = "vlm", "vlm-next"
PYTHON = "/opt/venv/supervisor/bin/python"
VOLUME = "vlm-next-state"
OWN_IMAGE = "paddleocr-vl/vlm-serving:before-upgrade"
LOAD_SECONDS, DRAIN_SECONDS, SELFTEST_SECONDS, STOP_SECONDS = 1800.0, 700.0, 900.0, 180.0
PAUSE_SECONDS = 2
# Settings that count the dies of a container, which `vlm` gets others of.
COUNT_DIES = ("VLM_REPLICAS", "VLM_CORES", "LAYOUT_DEVICE")


def must(*words: str, timeout: float = project.SECONDS, settings: Mapping[str, str] | None = None) -> str:
    """Output of `docker compose WORDS`. Raises ServiceError with its last line."""
    answer = project.compose("--profile", "upgrade", *words, timeout=timeout, settings=settings)
    if answer.returncode:
        lines = (answer.stderr.strip() or answer.stdout.strip() or "no message").splitlines()
        raise ServiceError(f"docker compose {' '.join(words[:2])}: {lines[-1]}")
    return answer.stdout


def take(half: str) -> None:
    """Let `vlm` use a half of its dies, or all; returns when what it gives up has finished."""
    with step(f"vlm uses {'all of its dies' if half == 'all' else f'the {half} half of its dies'}"):
        must("exec", "-T", NOW, PYTHON, "-m", "container.take_half", half, timeout=DRAIN_SECONDS)


def start_container(service: str, seconds: float, settings: Mapping[str, str] | None = None) -> None:
    """Make a service's container from the image that compose names now, and wait until all its replicas answer.

    Raises ServiceError where the container ends, or the time is over.
    """
    must("up", "--detach", "--no-build", "--no-deps", service, timeout=STOP_SECONDS, settings=settings)
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
    (network,) = project.inspect(container)["NetworkSettings"]["Networks"]
    for words in (("disconnect",), ("connect", "--alias", NOW, "--alias", NEXT)):
        answer = project.docker("network", *words, network, container)
        if answer.returncode:
            raise ServiceError(f"docker network {words[0]}: {answer.stderr.strip()}")


def has_joined(container: str) -> bool:
    """Whether `join` gave it the name: it has passed the self-test, and calls go to it."""
    networks = project.inspect(container)["NetworkSettings"]["Networks"].values()
    return any(NOW in (network.get("Aliases") or ()) for network in networks)


def remove_next() -> None:
    """End `vlm-next` after its requests, with its volume."""
    row = project.containers().get(NEXT)
    if row is None:
        return
    with step(f"{NEXT} finishes its requests and ends"):
        must("rm", "--stop", "--force", NEXT, timeout=STOP_SECONDS)
        project.docker("volume", "rm", f"{row['Project']}_{VOLUME}")


def held(rows: Mapping[str, dict[str, Any]], service: str) -> list[int]:
    """The dies whose device files a service's container was given; none where it is not there, and on CPU."""
    if service not in rows:
        return []
    devices = project.inspect(rows[service]["ID"])["HostConfig"].get("Devices") or []
    found = (re.fullmatch(r"/dev/davinci(\d+)", one["PathOnHost"]) for one in devices)
    return sorted(int(match[1]) for match in found if match)


def are_apart(rows: Mapping[str, dict[str, Any]]) -> bool:
    """Whether both containers are there, and each has dies of its own."""
    return bool(held(rows, NEXT)) and not set(held(rows, NEXT)) & set(held(rows, NOW))


def configured() -> list[int]:
    """The dies that compose gives to `vlm`, by .env."""
    return dies.given(VALUES)


def settings_of(service: str, numbers: Sequence[int]) -> dict[str, str]:
    """Settings that give a service the device files of these dies, all of which it uses. Dies that are gone are left
    out: the engine makes no container with their device files. Raises DeviceError where none is left."""
    text = dies.ids(dies.usable(numbers))
    dies.write(text)
    own = {"NPU_IDS": text, "VLM_REPLICAS": ""}
    return {**own, "VLM_NEXT_HALF": ""} if service == NEXT else own


def for_env(settings: Mapping[str, str]) -> str:
    """What .env must say while `vlm` has these dies only."""
    return f"NPU_IDS={settings['NPU_IDS']}" + (" and no VLM_REPLICAS" if VALUES.get("VLM_REPLICAS") else "")


def halved(numbers: Sequence[int]) -> dict[str, dict[str, str]]:
    """The same for two halves of the dies that are used: VLM_REPLICAS may be fewer. Raises UsageError for one."""
    numbers = dies.usable(numbers[: int(VALUES.get("VLM_REPLICAS") or len(numbers))])
    if len(numbers) < 2:
        raise UsageError("one die cannot be halved; expected two dies or more (NPU_IDS, VLM_REPLICAS)")
    middle = (len(numbers) + 1) // 2
    return {NOW: settings_of(NOW, numbers[:middle]), NEXT: settings_of(NEXT, numbers[middle:])}


def check_pause(pause: bool, numbers: Sequence[int]) -> None:
    """Raise UsageError where a die belongs to one container, unless the caller takes the pause that this costs."""
    if pause or dies.shared(numbers):
        return
    raise UsageError(
        "device-share is off or not known, so vlm-next cannot open dies that vlm holds. Nothing was changed. Either "
        "`scripts/upgrade.sh start --pause`: vlm is made anew with the first half of its dies, which takes as long as "
        f"its weights load, and nobody answers meanwhile (jobs wait); later upgrades need no pause. Or, {dies.SHARE}"
    )


def as_it_is(container: str) -> dict[str, str]:
    """Settings that make `vlm` anew as its container is: of its own image, which compose's name may not be any more,
    and by its own settings. What .env says now may be for the other version, and this one may refuse it."""
    known = project.inspect(container)
    answer = project.docker("tag", known["Image"], OWN_IMAGE)
    if answer.returncode:
        raise ServiceError(f"docker tag: {answer.stderr.strip()}")
    env = dict(line.split("=", 1) for line in known["Config"]["Env"] if "=" in line)
    own = {name: env[name] for name in env if name.startswith(declared_settings.PREFIXES) and name not in COUNT_DIES}
    return {**own, "VLM_IMAGE": OWN_IMAGE}


def start(seconds: float, pause: bool) -> None:
    rows = project.containers()
    apart = are_apart(rows)
    if NEXT in rows and not (apart and project.inspect(rows[NEXT]["ID"])["Image"] == image_of(rows)):
        raise UsageError(f"{NEXT} is there already; scripts/upgrade.sh promote, or back")
    if rows.get(NOW, {}).get("Health") != "healthy":
        raise UsageError("vlm is not healthy; an upgrade by halves needs a VLM that serves (scripts/status.sh)")
    (image,) = must("config", "--images", NOW).split()
    answer = project.docker("image", "inspect", "--format", "{{.Id}}", image)
    if answer.returncode:
        raise UsageError(f"{image} is not there; docker compose build, or scripts/offline_bundle.sh load")
    if image_of(rows) == answer.stdout.strip():
        raise UsageError(f"vlm runs {image} already; build or load another version first")
    served_model.check(NOW, PYTHON, VALUES)
    mine = held(rows, NOW)
    if mine and not apart:
        check_pause(pause, mine)
    settings: dict[str, dict[str, str]] = {}
    if apart or (mine and pause):
        both = {NOW: mine, NEXT: held(rows, NEXT)}
        settings = {service: settings_of(service, both[service]) for service in both} if apart else halved(mine)
        if not apart:
            say(f"nobody answers until vlm has loaded on dies {settings[NOW]['NPU_IDS']}; jobs wait")
            start_container(NOW, seconds, {**as_it_is(rows[NOW]["ID"]), **settings[NOW]})
        start_container(NEXT, seconds, settings[NEXT])
    else:
        take("first")
        start_container(NEXT, seconds)
    judge(NEXT)
    join(project.containers()[NEXT]["ID"])
    if settings:
        # A boot with config/systemd does the same.
        say(
            f"set {for_env(settings[NOW])} in .env now: `docker compose up` would else give vlm dies that vlm-next "
            "holds, and it would not start"
        )
    say(f"both versions serve, {image} on the second half of the dies. Next: scripts/upgrade.sh promote, or back")


def image_of(rows: Mapping[str, dict[str, Any]]) -> str:
    """The id of the image that `vlm` runs."""
    return str(project.inspect(rows[NOW]["ID"])["Image"])


def promote(seconds: float) -> None:
    rows = project.containers()
    if NEXT not in rows:
        raise UsageError(f"there is no {NEXT}; scripts/upgrade.sh start comes first")
    if not has_joined(rows[NEXT]["ID"]):
        raise UsageError(f"{NEXT} did not pass scripts/upgrade.sh start and serves nobody; scripts/upgrade.sh back")
    if are_apart(rows):
        mine = settings_of(NOW, held(rows, NOW))
        start_container(NOW, seconds, mine)
        judge(NOW)
        say(
            f"both containers are the new version, and stay two, each with its dies: {for_env(mine)} stays in .env. "
            "The next start needs no pause; scripts/upgrade.sh back makes them one again"
        )
        return
    start_container(NOW, seconds)
    judge(NOW)
    remove_next()
    take("all")
    say("vlm is the new version; its second half loads (scripts/status.sh --wait-all)")


def back(seconds: float) -> None:
    rows = project.containers()
    if NEXT in rows and rows.get(NOW, {}).get("Health") != "healthy":
        raise UsageError(
            f"vlm does not serve, {NEXT} does; first bring the version before: tag its image back, then "
            "docker compose up -d --no-build --no-deps --wait vlm"
        )
    mine = held(rows, NOW)
    # What was taken from it for vlm-next; or, where a start broke off before, what .env names.
    everything = sorted({*mine, *held(rows, NEXT)}) if NEXT in rows else configured() if mine else []
    remove_next()
    if everything != mine:
        there = dies.usable(everything)
        text = dies.ids(there)
        dies.write(text)
        env = "Make .env again as it was before start"
        if there != everything:
            env = f"Set NPU_IDS={text} and no VLM_REPLICAS in .env"
        say(f"nobody answers until vlm has loaded on dies {text}; jobs wait. {env}")
        own = {**as_it_is(rows[NOW]["ID"]), "NPU_IDS": text}
        start_container(NOW, seconds, own if there == everything else {**own, "VLM_REPLICAS": ""})
        return
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
    arguments.add_argument(
        "--pause", action="store_true", help="start: on dies that belong to one container, make vlm anew with one half"
    )
    options = arguments.parse_args(words)
    try:
        if options.verb == "start":
            start(options.timeout, options.pause)
        else:
            {"promote": promote, "back": back}[options.verb](options.timeout)
    except ServiceError:
        rows = project.containers()
        goes_on = any(rows.get(service, {}).get("Health") == "healthy" for service in (NOW, NEXT))
        said = "the other half goes on serving" if goes_on else "nothing serves"
        say(f"{said}; scripts/upgrade.sh back ends the attempt")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
