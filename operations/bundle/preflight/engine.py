# SPDX-License-Identifier: Apache-2.0
"""Docker, Compose, and the images that are there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import atlas
from bundle.compose import images, project
from bundle.paths import ROOT
from bundle.preflight.machine import Finding, Machine, dotted, passed, version

GIB = 2**30
# Before 20.10.10 its default seccomp profile fails clone3, by which a glibc of 2.34 makes threads (moby#42681); before
# 20.10.18 it hides Landlock from containers (moby#43991), by which decoders are isolated.
ENGINE, COMPOSE, BUILDKIT_ENGINE = (20, 10, 18), (2, 20), (23, 0)
# Both images and what a build needs besides.
DISK = {"ascend": 60, "cpu": 20}


def at_least(least: tuple[int, ...], found: str | None, name: str, absent: Finding, update: str) -> Finding:
    """What to say of a program by its version, None where it does not answer: `absent`, too old, or passed."""
    if found is None:
        return absent
    if version(found) < least:
        return Finding("FAIL", absent.check, found.strip(), f"{dotted(least)} or newer", update)
    return passed(absent.check, f"{name} {found.strip()}")


# openEuler 22.03 has 18.09, whose command line knows no plugins.
INSTALL = (
    "apt-get install docker.io, or Docker's own packages (docker-ce, docker-ce-cli, containerd.io, "
    "docker-compose-plugin; those for CentOS on openEuler, whose docker is 18.09)"
)


def check_engine(machine: Machine) -> Iterator[Finding]:
    found = machine.run("docker", "version", "--format", "{{.Server.Version}}")
    absent = Finding(
        "FAIL",
        "engine",
        "docker does not answer",
        f"Docker Engine {dotted(ENGINE)} or newer, running",
        f"{INSTALL}; then systemctl enable --now docker; as another user than root: usermod -aG docker USER",
    )
    finding = at_least(ENGINE, found, "Docker", absent, INSTALL)
    yield finding
    if found is None or finding.level == "FAIL":
        return
    if version(found) < BUILDKIT_ENGINE:
        yield Finding(
            "WARN",
            "building",
            f"Docker {found.strip()} brings an old BuildKit",
            "BuildKit 0.11 (Docker 23)",
            "nothing, to run the bundle; to build images, use another machine and scripts/offline_bundle.sh",
        )
    root = (machine.run("docker", "info", "--format", "{{.DockerRootDir}}") or "/var/lib/docker").strip()
    free, needed = machine.free_disk(Path(root)) / GIB, DISK[machine.hardware]
    if free >= needed:
        yield passed("disk", f"{free:.0f} GiB free in {root}")
    else:
        yield Finding(
            "WARN",
            "disk",
            f"{free:.0f} GiB free in {root}",
            f"{needed} GiB to load or build the images",
            "docker system prune, or move Docker's data-root",
        )


def check_compose(machine: Machine) -> Iterator[Finding]:
    found = machine.run("docker", "compose", "version", "--short")
    absent = Finding(
        "FAIL",
        "compose",
        "docker compose is missing",
        f"the Compose plugin, {dotted(COMPOSE)} or newer",
        "copy the plugin docker-compose (it is in the offline bundle) to /usr/libexec/docker/cli-plugins/ and make it "
        "executable; with Docker's own packages docker-compose-plugin, on Ubuntu docker-compose-v2",
    )
    yield at_least(COMPOSE, found, "Compose", absent, "replace the plugin docker-compose")


def labels_of(machine: Machine, image: str) -> str | None:
    """The labels of an image as JSON, None if it is not there."""
    return machine.run("docker", "image", "inspect", "--format", "{{json .Config.Labels}}", image)


def missing(check: str, image: str) -> Finding:
    return Finding(
        "WARN",
        check,
        f"{image} is not there",
        "the image, or a network to build it",
        "docker compose build, or scripts/offline_bundle.sh load ARCHIVE",
    )


def check_parser_image(machine: Machine) -> Iterator[Finding]:
    there = labels_of(machine, images.PARSER) is not None
    yield passed("parser image", images.PARSER) if there else missing("parser image", images.PARSER)


def check_image(machine: Machine) -> Iterator[Finding]:
    """Check whether the VLM image is there, and was built for what HARDWARE, STACK and on Ascend ATLAS say.

    What ATLAS says is compared with the dies in `npu.check_dies`, which also names a setting that is none.
    """
    stack, key = machine.stack, "cpu"
    if machine.hardware == "ascend":
        key = machine.setting("ATLAS", atlas.DEFAULT.key)
        if key not in atlas.KEYS:
            return
    image = images.vlm(key, stack)
    labels = labels_of(machine, image)
    if labels is None:
        yield missing("image", image)
        return
    found = {name: (json.loads(labels) or {}).get(f"paddleocr-vl.{name}", "") for name in ("hardware", "stack", "soc")}
    wrong = [
        f"{name.upper()} {found[name] or 'that it does not name'}"
        for name, value in {"hardware": machine.hardware, "stack": stack}.items()
        if found[name] != value
    ]
    soc = found["soc"]
    if wrong:
        # The name says otherwise, as after a rollback that left .env as it was.
        yield Finding(
            "FAIL",
            "image",
            f"{image} was built for {' and '.join(wrong)}",
            f"HARDWARE {machine.hardware} and STACK {stack}, as .env says",
            "restore .env as it was for that image, or docker compose build vlm",
        )
    elif machine.hardware == "ascend" and soc not in atlas.named(key).socs:
        yield Finding(
            "FAIL",
            "image",
            f"{image} was built for {soc or 'no chip that it names'}",
            f"an image for {atlas.named(key).title}, like {atlas.named(key).soc}",
            "docker compose build vlm",
        )
    else:
        yield passed("image", image + (f", built for {soc}" if soc else ""))


def check_boot(machine: Machine) -> Iterator[Finding]:
    """Compare the folder that config/systemd starts at boot, where it is used, with this one: after an upgrade in a
    folder of its own it is the one before, whose images `docker compose up` would bring back."""
    folder = project.boot_folder(machine.path(project.UNIT))
    if folder == ROOT.resolve():
        yield passed("boot", f"{project.UNIT} starts the bundle in this folder")
    elif folder:
        yield Finding(
            "WARN",
            "boot",
            f"{project.UNIT} starts the bundle in {folder}",
            f"{ROOT}; otherwise the next boot starts the other folder's version",
            f"WorkingDirectory={ROOT} in it, then systemctl daemon-reload, as soon as this version serves; before "
            "scripts/upgrade.sh start --pause",
        )


CHECKS = (check_engine, check_compose, check_boot, check_image, check_parser_image)
