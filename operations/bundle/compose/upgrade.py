# SPDX-License-Identifier: Apache-2.0
"""scripts/upgrade.sh: another version of the VLM on half of the dies while the others serve; promote it or go back.

`vlm-next` (compose.yaml) is a container like `vlm`, but of the image that compose names now. Each uses one half of the
dies. When its replicas have passed the self-test, it gets the name `vlm` in the internal network too, and the parser's
calls go to both (decision 0415).

Where the dies may be shared (on CPU; on Ascend with device-share on), both containers see all dies, and `vlm` gives up
a half without being made anew. Where a die belongs to one container, each gets the device files of its half only, and
the two stay, so that `vlm` is made anew once and not for every upgrade. Then NPU_IDS=present names the dies of `vlm`,
from `start` on and also after `back`, so that compose and a boot make `vlm` as this script does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import declared_settings
from bundle import readiness
from bundle.compose import dies, division, project, served_model, sharing
from bundle.compose.division import NEXT, NOW
from bundle.compose.judged import judge
from bundle.paths import VALUES
from bundle.progress import last_line, say, step
from tool_errors import ServiceError, UsageError, run

VOLUME = "vlm-next-state"
OWN_IMAGE = f"paddleocr-vl/{project.name(VALUES)}-vlm:before-upgrade"
LOAD_SECONDS, DRAIN_SECONDS, STOP_SECONDS = 1800.0, 1000.0, 180.0
PAUSE_SECONDS = 2
# States of a container that nobody starts again.
ENDED = ("exited", "created", "dead")
# Of the variables that compose hands to `vlm` those that .env may have.
OWN_PREFIXES = (*declared_settings.PREFIXES, "MODELS_CONFIG")
# Settings that count the dies of a container, which `vlm` gets others of.
COUNT_DIES = ("VLM_REPLICAS", "VLM_CORES", "LAYOUT_DEVICE")


def must(*words: str, timeout: float = project.SECONDS, settings: Mapping[str, str] | None = None) -> str:
    """Output of `docker compose WORDS`. Raises ServiceError with its last line."""
    answer = project.compose("--profile", "upgrade", *words, timeout=timeout, settings=settings)
    if answer.returncode:
        raise ServiceError(f"docker compose {' '.join(words[:2])}: {last_line(answer.stderr, answer.stdout)}")
    return answer.stdout


def take(half: str) -> None:
    """Let `vlm` use a half of its dies, or all; returns when what it gives up has finished."""
    with step(f"vlm uses {'all of its dies' if half == 'all' else f'the {half} half of its dies'}"):
        must("exec", "-T", NOW, project.PYTHON, "-m", "container.take_half", half, timeout=DRAIN_SECONDS)


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
                # Sixteen replicas that end write much behind the error that ended them.
                lines = must("logs", "--no-log-prefix", "--tail", str(readiness.LOG_LINES), service).splitlines()
                raise ServiceError(f"the container {service} ended: {readiness.likely_cause(lines)}")
            answer = project.compose("exec", "-T", service, project.PYTHON, "-m", "container.status")
            if answer.returncode == 0:
                found = json.loads(answer.stdout)
                up = sum(replica["up"] for replica in found["replicas"])
                if up == found["configured"]:
                    return
                ticker.detail = f"{up} of {found['configured']} replicas answer"
            if time.monotonic() >= deadline:
                raise ServiceError(f"not all replicas of {service} answered within {seconds:.0f} s (--timeout)")
            time.sleep(PAUSE_SECONDS)


def join(container: str) -> None:
    """Give the container the name `vlm` in its network, beside its own. Raises ServiceError."""
    (network,) = project.inspect(container)["NetworkSettings"]["Networks"]
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


def say_env() -> None:
    """Say what .env must be from now on; a boot with config/systemd makes containers by it too."""
    wrong = [f"NPU_IDS={dies.PRESENT}"] if VALUES.get("NPU_IDS") != dies.PRESENT else []
    wrong += ["VLM_REPLICAS="] if VALUES.get("VLM_REPLICAS") else []
    if wrong:
        say(f"set {' and '.join(wrong)} in .env now; otherwise `docker compose up` gives vlm other dies than it has")


def check_pause(pause: bool, numbers: Sequence[int]) -> None:
    """Raise UsageError where a die belongs to one container, unless the caller takes the pause that this costs."""
    if pause or sharing.shared(numbers):
        return
    raise UsageError(
        "vlm-next cannot open dies that vlm holds: device-share is off or unknown. Nothing was changed. Run "
        "`scripts/upgrade.sh start --pause`: vlm loads again on the first half of its dies, and nobody answers "
        f"meanwhile (jobs wait); later upgrades need no pause. Or turn device-share on: {sharing.SHARE}"
    )


def named_image() -> str:
    """The name of the image that compose makes `vlm` of."""
    (image,) = must("config", "--images", NOW).split()
    return image


def as_it_is(container: str) -> dict[str, str]:
    """Settings that make `vlm` anew as its container is: of its own image, which compose's name may not be any more,
    and by its own settings. What .env says now may be for the other version, and this one may refuse it: what the
    container has nothing of is empty, which every version takes for unset.

    OWN_IMAGE is left alone where compose's name is the image: it may be all that names the version before.
    """
    found = project.inspect(container)
    own_image = {}
    if found["Image"] != project.image_id(named_image()):
        answer = project.docker("tag", found["Image"], OWN_IMAGE)
        if answer.returncode:
            raise ServiceError(f"docker tag: {answer.stderr.strip()}")
        own_image = {"VLM_IMAGE": OWN_IMAGE}
    env = dict(line.split("=", 1) for line in found["Config"]["Env"] if "=" in line)
    passed = json.loads(must("config", "--format", "json", NOW))["services"][NOW]["environment"]
    own = {name: env.get(name, "") for name in passed if name.startswith(OWN_PREFIXES) and name not in COUNT_DIES}
    # Where it is unset, the container took the newest weights of then; newer ones may be there by now. Where it serves
    # nothing that could be asked, those it is, and the parser follows.
    own["VLM_MODEL"] = own.get("VLM_MODEL") or served_model.served(NOW)
    return {**own, **own_image}


def revive(rows: Mapping[str, dict[str, Any]], seconds: float) -> None:
    """Make a `vlm-next` that has ended anew, as it was: an engine that starts before the driver has made a die's file
    does not try its containers again."""
    pair = division.of_pair(rows, VALUES) if division.are_apart(rows) else None
    start_container(NEXT, seconds, division.settings(NEXT, pair, VALUES) if pair else None)
    judge(NEXT)
    join(project.containers()[NEXT]["ID"])
    say(f"{NEXT} had ended, and serves again; its version is the same as before")


def start(seconds: float, pause: bool) -> None:
    rows = project.containers()
    apart = division.are_apart(rows)
    if NEXT in rows and rows[NEXT]["State"] in ENDED and is_named(rows[NEXT]["ID"]):
        revive(rows, seconds)
        return
    if NEXT in rows and not (apart and image_of(rows, NEXT) == image_of(rows)):
        raise UsageError(f"{NEXT} is there already; scripts/upgrade.sh promote, or back")
    if rows.get(NOW, {}).get("Health") != "healthy":
        raise UsageError("vlm is not healthy; an upgrade by halves needs a VLM that serves (scripts/status.sh)")
    image = named_image()
    new = project.image_id(image)
    if not new:
        raise UsageError(f"{image} is not there; docker compose build, or scripts/offline_bundle.sh load")
    if image_of(rows) == new:
        raise UsageError(f"vlm runs {image} already; build or load another version first")
    served_model.check(NOW, VALUES)
    mine = division.held(rows, NOW)
    if mine and not apart:
        check_pause(pause, mine)
    if apart or (mine and pause):
        halves = division.of_pair(rows, VALUES) if apart else division.halved(division.whole(rows, VALUES), VALUES)
        division.check(halves, VALUES)
        settings = {service: division.settings(service, halves, VALUES) for service in halves}
        if not apart:
            say(f"nobody answers until vlm has loaded on dies {dies.ids(halves[NOW])}; jobs wait")
            start_container(NOW, seconds, {**as_it_is(rows[NOW]["ID"]), **settings[NOW]})
        say_env()
        start_container(NEXT, seconds, settings[NEXT])
    else:
        take("first")
        start_container(NEXT, seconds)
    judge(NEXT)
    join(project.containers()[NEXT]["ID"])
    say(f"both versions serve, {image} on the second half of the dies. Next: scripts/upgrade.sh promote, or back")


def is_named(container: str) -> bool:
    """Whether a container is of the image that compose names now."""
    return bool(project.inspect(container)["Image"] == project.image_id(named_image()))


def image_of(rows: Mapping[str, dict[str, Any]], service: str = NOW) -> str:
    """The id of the image that a service runs."""
    return str(project.inspect(rows[service]["ID"])["Image"])


def promote(seconds: float) -> None:
    rows = project.containers()
    if NEXT not in rows:
        raise UsageError(f"there is no {NEXT}; run scripts/upgrade.sh start first")
    if rows[NEXT]["State"] in ENDED:
        raise UsageError(
            f"{NEXT} has ended, so nobody would answer meanwhile; scripts/upgrade.sh start starts it again"
        )
    if not division.has_joined(rows[NEXT]["ID"]):
        raise UsageError(
            f"{NEXT} did not pass scripts/upgrade.sh start, so it does not serve; run scripts/upgrade.sh back"
        )
    served_model.check(NOW, VALUES)
    if division.are_apart(rows):
        start_container(NOW, seconds, division.settings(NOW, division.of_pair(rows, VALUES), VALUES))
        judge(NOW)
        say(
            "both containers run the new version and stay two, each with its dies. The next start needs no pause; "
            "scripts/upgrade.sh back joins them again. When you no longer need the previous version: docker image rm "
            f"{OWN_IMAGE}"
        )
        say_env()
        return
    start_container(NOW, seconds)
    judge(NOW)
    remove_next()
    take("all")
    say("vlm runs the new version; its second half loads (scripts/status.sh --wait-all)")


def bring_before(rows: Mapping[str, dict[str, Any]]) -> str:
    """How `vlm` becomes the version before, where it is the one that compose names."""
    kept = project.image_id(OWN_IMAGE)
    before = (
        OWN_IMAGE
        if kept and not (NOW in rows and kept == image_of(rows))
        else "the image that you tagged before the upgrade"
    )
    return (
        f"docker tag {before} {named_image()}, .env as it was then, "
        "docker compose up -d --no-build --no-deps --wait vlm"
    )


def say_version(rows: Mapping[str, dict[str, Any]]) -> None:
    """Say which version `back` leaves: each `up` of compose makes `vlm` of the new one, in the midst of a trial too."""
    image = named_image()
    if NEXT in rows and image_of(rows) == image_of(rows, NEXT):
        say(
            f"vlm runs the version of {NEXT} ({image}), because promote, docker compose up or a boot started it with "
            "that image; it keeps this version. To get the previous version, run this when back has ended: "
            f"{bring_before(rows)}"
        )
    elif image_of(rows) != project.image_id(image):
        say(f"vlm keeps the previous version; tag its image back ({image}) before the next docker compose up")


def back(seconds: float, pause: bool) -> None:
    rows = project.containers()
    serve = [service for service in (NOW, NEXT) if rows.get(service, {}).get("Health") == "healthy"]
    if serve == [NEXT] and not (pause and NOW in rows):
        raise UsageError(
            f"vlm does not serve, {NEXT} does. Nothing was changed. If {NEXT} holds dies of vlm (a boot turns "
            f"device-share off), run `scripts/upgrade.sh back --pause`: it ends {NEXT} and starts vlm again as it is; "
            "nobody answers meanwhile. If vlm's own version fails, first restore the previous version: "
            f"{bring_before(rows)}"
        )
    everything = division.whole(rows, VALUES) if division.divides(rows) else []
    # Before anything is removed: where no die can be used, both stay as they are.
    settings = division.settings(NOW, {NOW: everything}, VALUES) if everything else {}
    if NOW in rows and (everything or NEXT in rows):
        say_version(rows)
    if everything or (NOW in rows and NEXT in rows and NOW not in serve):
        # vlm could not open dies that vlm-next has, as when device-share went off with a boot.
        own = as_it_is(rows[NOW]["ID"])
        remove_next()
        if everything:
            say(f"nobody answers until vlm has loaded on dies {dies.ids(everything)}; jobs wait")
        start_container(NOW, seconds, {**own, **settings})
    else:
        remove_next()
    if everything:
        (dies.FOLDER / f"{dies.PRESENT_NEXT}.yaml").unlink(missing_ok=True)
        say_env()
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
        "--pause",
        action="store_true",
        help="start: where a die belongs to one container, restart vlm with half of its dies; back: end vlm-next "
        "although only it serves",
    )
    options = arguments.parse_args(words)
    try:
        if options.verb == "promote":
            promote(options.timeout)
        else:
            {"start": start, "back": back}[options.verb](options.timeout, options.pause)
    except (ServiceError, KeyboardInterrupt):
        rows = project.containers()
        goes_on = any(rows.get(service, {}).get("Health") == "healthy" for service in (NOW, NEXT))
        said = "the other half keeps serving" if goes_on else "nothing serves"
        say(f"{said}; scripts/upgrade.sh back ends the attempt")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
