# SPDX-License-Identifier: Apache-2.0
"""Docker, Compose, and the images that are there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import atlas
from bundle.compose import images, project
from bundle.compose.project import OLDEST_COMPOSE, version
from bundle.offline.contents import MANIFEST, PLUGIN
from bundle.paths import ROOT
from bundle.preflight.machine import GIB, Finding, Machine, dotted, passed

# Before 20.10.10 its default seccomp profile fails clone3, by which a glibc of 2.34 makes threads (moby#42681); before
# 20.10.18 it hides Landlock from containers (moby#43991), by which decoders are isolated.
ENGINE, BUILDKIT_ENGINE = (20, 10, 18), (23, 0)
# Compose 2.40 refuses a buildx before 0.17, and builds without one if there is none; Compose 5 needs it.
COMPOSE_BY_BUILDX, COMPOSE_NEEDS_BUILDX, BUILDX = (2, 40), (5,), (0, 17)
# Before 0.21 buildx ends where it wants a permission that Compose does not pass on: for the host's network, and 0.20
# also for files outside the folder. Those are the build's secrets: /dev/null where a site has none.
BUILDX_ASKS_FOR_FILES, BUILDX_ASKS_NOTHING = (0, 20), (0, 21)
# Both images and what a build needs besides.
DISK = {"ascend": 60, "cpu": 20}
# Options of the engine by which a container has other users and groups than the node -> what to say, and the remedy.
USERS = {
    "rootless": (
        "Docker runs rootless",
        "the node's own engine: systemctl enable --now docker; docker context use default",
    ),
    "userns": (
        "Docker gives containers users of their own (userns-remap)",
        "take userns-remap out of /etc/docker/daemon.json, systemctl restart docker, load or build the images again",
    ),
}
# How the socket of a containerd ends that Docker has started. It keeps its files in Docker's data-root; the system's
# own one keeps them in the folder that its settings name.
OWN_SOCKET = "/docker/containerd/containerd.sock"
CONTAINERD, CONTAINERD_SETTINGS = "/var/lib/containerd", "/etc/containerd/config.toml"


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
    "docker-buildx-plugin, docker-compose-plugin; those for CentOS on openEuler, whose docker is 18.09)"
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
    info = json.loads(machine.run("docker", "info", "--format", "{{json .}}") or "{}")
    yield from security(machine, info)
    yield from disks(machine, info)


def security(machine: Machine, info: dict[str, Any]) -> Iterator[Finding]:
    """Options of the engine by which containers may not open what they are given."""
    options = {one.partition(",")[0].removeprefix("name=") for one in info.get("SecurityOptions") or ()}
    for option, (said, remedy) in USERS.items() if machine.hardware == "ascend" else ():
        if option in options:
            yield Finding("FAIL", "security", said, "the node's groups in containers: dies belong to one", remedy)
    models = ROOT / machine.setting("MODELS_DIR")
    # The types that containers may read begin alike: container_file_t, container_ro_file_t.
    if "selinux" in options and "container_" not in (machine.run("stat", "--format", "%C", str(models)) or ""):
        more = "; setsebool -P container_use_devices on, for the dies" if machine.hardware == "ascend" else ""
        yield Finding(
            "WARN",
            "security",
            f"the engine labels containers (SELinux), which may not read {models} then",
            "the label container_file_t on each folder that is mounted",
            f"chcon -R -t container_file_t {models}{more}; ausearch -m avc -ts recent names what else is refused",
        )


def disks(machine: Machine, info: dict[str, Any]) -> Iterator[Finding]:
    """The disk of the images, and that of jobs where it is another one."""
    data, move = Path(info.get("DockerRootDir") or "/var/lib/docker"), "move Docker's data-root"
    needed, prune = DISK[machine.hardware], "docker system prune, or"
    reason = f"{needed} GiB to load or build the images"
    address = (info.get("Containerd") or {}).get("Address") or ""
    if project.CONTAINERD_STORE not in (info.get("DriverStatus") or []) or address.endswith(OWN_SOCKET):
        yield room(machine, "disk", data, needed, reason, f"{prune} {move}")
        return
    stored = containerd_root(machine)
    remedy = f"{prune} move containerd's root (root in {CONTAINERD_SETTINGS}): Docker keeps the images there"
    yield room(machine, "disk", stored, needed, reason, remedy)
    keep = machine.setting("PARSER_JOB_KEEP_GIB")
    if re.fullmatch(r"\d+(\.\d+)?", keep) and not machine.same_disk(stored, data):
        reason = f"{keep} GiB for jobs and results (PARSER_JOB_KEEP_GIB)"
        yield room(machine, "disk of jobs", data, float(keep), reason, f"a smaller PARSER_JOB_KEEP_GIB, or {move}")


def room(machine: Machine, check: str, folder: Path, needed: float, reason: str, remedy: str) -> Finding:
    """Whether `needed` GiB are free on the disk of `folder`."""
    free = machine.free_disk(folder) / GIB
    said = f"{free:.0f} GiB free in {folder}"
    return passed(check, said) if free >= needed else Finding("WARN", check, said, reason, remedy)


def containerd_root(machine: Machine) -> Path:
    """Where containerd keeps its files; `root` stands before the first table of its settings."""
    before_tables = machine.read(CONTAINERD_SETTINGS).partition("\n[")[0]
    found = re.search(r"""^root\s*=\s*["'](.+?)["']""", before_tables, re.MULTILINE)
    return Path(found[1] if found else CONTAINERD)


def check_compose(machine: Machine) -> Iterator[Finding]:
    found = machine.run("docker", "compose", "version", "--short")
    carried = "docker-compose of this folder" if (ROOT / PLUGIN).is_file() else "the plugin docker-compose"
    # It comes before the folders of packages.
    put = f"copy {carried} to /usr/local/lib/docker/cli-plugins/ and make it executable"
    absent = Finding(
        "FAIL",
        "compose",
        "docker compose is missing",
        f"the Compose plugin, {dotted(OLDEST_COMPOSE)} or newer",
        f"{put}; or install docker-compose-plugin with Docker's own packages, on Ubuntu docker-compose-v2, on Debian "
        "13 docker-compose",
    )
    yield at_least(OLDEST_COMPOSE, found, "Compose", absent, put)


def vlm_image(machine: Machine) -> str:
    return images.vlm(machine.setting("ATLAS") if machine.hardware == "ascend" else "cpu", machine.stack)


def builds_here(machine: Machine) -> bool:
    """Tell whether images are missing that are built in this folder: it is no archive, or one that carries what a build
    needs and not the images."""
    if all(labels_of(machine, name) is not None for name in (images.PARSER, vlm_image(machine))):
        return False
    try:
        return bool(json.loads((ROOT / MANIFEST).read_text(encoding="utf-8"))["builds"])
    except (OSError, ValueError, KeyError):
        return True


def check_buildx(machine: Machine) -> Iterator[Finding]:
    """Check the builder of newer Composes, where images will be built."""
    compose = version(machine.run("docker", "compose", "version", "--short") or "")
    if compose < COMPOSE_BY_BUILDX or not builds_here(machine):
        return
    found = version(machine.run("docker", "buildx", "version") or "")
    if not found and compose < COMPOSE_NEEDS_BUILDX:
        return
    needed = f"buildx {dotted(BUILDX)} or newer, by which Compose {dotted(compose)} builds"
    update = (
        "install docker-buildx-plugin (Docker's own packages) or docker-buildx (Debian, Ubuntu); or build on another "
        "machine, and scripts/offline_bundle.sh"
    )
    asks = [
        *(["files outside this folder, which the build's secrets are"] if found >= BUILDX_ASKS_FOR_FILES else []),
        *(["BUILD_NETWORK=host"] if machine.setting("BUILD_NETWORK") == "host" else []),
    ]
    if found < BUILDX:
        yield Finding("FAIL", "buildx", f"buildx {dotted(found)}" if found else "buildx is missing", needed, update)
    elif found < BUILDX_ASKS_NOTHING and asks:
        said = f"buildx {dotted(found)} asks for permissions that Compose does not give: {', '.join(asks)}"
        yield Finding("WARN", "buildx", said, f"buildx {dotted(BUILDX_ASKS_NOTHING)} or newer", update)
    else:
        yield passed("buildx", f"buildx {dotted(found)}")


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
    if machine.hardware == "ascend" and machine.setting("ATLAS") not in atlas.KEYS:
        return
    image, stack = vlm_image(machine), machine.stack
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
    elif machine.hardware == "ascend" and soc not in machine.product.socs:
        yield Finding(
            "FAIL",
            "image",
            f"{image} was built for {soc or 'no chip that it names'}",
            f"an image for {machine.product.title}, like {machine.product.soc}",
            "docker compose build vlm",
        )
    else:
        yield passed("image", image + (f", built for {soc}" if soc else ""))


def check_boot(machine: Machine) -> Iterator[Finding]:
    """Compare the folder that config/systemd starts at boot, where it is used, with this one: after an upgrade in a
    folder of its own it is the one before, whose images `docker compose up` would bring back."""
    folder = project.boot_folder(machine.values, machine.path(project.UNIT))
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


def check_folder(machine: Machine) -> Iterator[Finding]:
    """Name another folder whose containers run here: Compose knows a bundle by its name, not by its folder."""
    for folder in project.other_folders(machine.run, machine.values):
        yield Finding(
            "WARN",
            "folder",
            f"containers of this node were made in {folder}",
            f"one bundle a node: docker compose up in {ROOT} replaces them",
            "nothing, to upgrade (docs/run.md); COMPOSE_PROJECT_NAME, for two at once (docs/questions.md); otherwise "
            f"go on in {folder}, or end its bundle there: docker compose --profile upgrade --profile npu-exporter down",
        )


CHECKS = (check_engine, check_compose, check_buildx, check_boot, check_folder, check_image, check_parser_image)
