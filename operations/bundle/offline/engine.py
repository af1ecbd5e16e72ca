# SPDX-License-Identifier: Apache-2.0
"""The container engine of this machine and its Compose plugin, which openEuler's own Docker lacks."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from bundle.compose import project
from bundle.compose.images import hardware
from bundle.offline.contents import PLUGIN
from bundle.paths import VALUES
from bundle.progress import last_line, say
from tool_errors import EnvironmentSetupError, UsageError

PLUGIN_FOLDERS = (
    "/usr/local/lib/docker/cli-plugins",
    "~/.docker/cli-plugins",
    "/usr/local/libexec/docker/cli-plugins",
    "/usr/lib/docker/cli-plugins",
    "/usr/libexec/docker/cli-plugins",
)


def docker(*words: str, **settings: str) -> str:
    """Run a docker command in the checkout and return its output; `settings` are added to its environment.

    Raises EnvironmentSetupError with the last line of its output if it fails.
    """
    result = project.docker(*words, timeout=None, settings=settings)
    if result.returncode:
        raise EnvironmentSetupError(f"docker {words[0]}: {last_line(result.stderr, result.stdout)}")
    return result.stdout.strip()


def images(corpus: bool = False) -> list[str]:
    """Return the names of the two images of this HARDWARE and STACK, as compose names them; with `corpus` also that of
    scripts/parse_corpus.py."""
    profiles = ("--profile", "corpus") if corpus else ()
    return sorted(docker("compose", *profiles, "config", "--images", HARDWARE=hardware(VALUES)).split())


def platform(processor: str) -> tuple[str, ...]:
    """The words by which `docker image inspect` and `docker save` mean the image for this processor.

    containerd's store keeps the images of all processors under one name. Without these words it answers for this
    machine's, and saves all that are there; a Docker with a store of its own then loads this machine's. Docker knows
    them from 28.1 on, which is before that store became the default. In Docker's own store a name has one image.
    """
    status = json.loads(docker("info", "--format", "{{json .DriverStatus}}") or "null") or []
    return ("--platform", f"linux/{processor}") if project.CONTAINERD_STORE in status else ()


def layers(image: str, of: Iterable[str] = ()) -> str:
    """Return the SHA-256 of the list of an image's layers, by which it is the same image in every engine.

    Its id is not: it is the digest of the configuration in Docker's own store, and of the manifest in containerd's.
    `docker image inspect --format '{{json .RootFS.Layers}}' IMAGE | sha256sum` prints the same. `of` is `platform`'s.
    """
    listed = docker("image", "inspect", *of, "--format", "{{json .RootFS.Layers}}", image)
    return hashlib.sha256(f"{listed}\n".encode()).hexdigest()


def size(image: str, of: Iterable[str] = ()) -> int:
    """The bytes of an image, as the engine counts them. `of` is `platform`'s."""
    return int(docker("image", "inspect", *of, "--format", "{{.Size}}", image))


def architecture(images: Iterable[str], of: Iterable[str] = ()) -> str:
    """Return the processor that the images are for, as the engine calls it (`arm64`, `amd64`). `of` is `platform`'s.

    Raises UsageError where they differ.
    """
    found = {image: docker("image", "inspect", *of, "--format", "{{.Architecture}}", image) for image in images}
    if len(set(found.values())) != 1:
        said = ", ".join(f"{image} for {name}" for image, name in found.items())
        raise UsageError(f"expected images for one kind of processor, got {said}; build them again for the node's")
    return next(iter(found.values()))


def find_plugin() -> Path | None:
    """Return the Compose plugin of this machine, None if there is none."""
    listed = json.loads(docker("info", "--format", "{{json .ClientInfo.Plugins}}") or "null") or []
    paths = [Path(entry["Path"]) for entry in listed if entry.get("Name") == "compose" and entry.get("Path")]
    paths += [Path(folder).expanduser() / PLUGIN for folder in PLUGIN_FOLDERS]
    return next((path for path in paths if path.is_file()), None)


def old_plugin(plugin: Path | None) -> str:
    """What to say of the Compose plugin that an archive gets, "" where it can serve a node."""
    needed = f"a node needs Compose {'.'.join(map(str, project.OLDEST_COMPOSE))} or newer"
    if plugin is None:
        return f"the archive has no Compose plugin, since none for its processor is here; {needed}"
    words = [str(plugin), "docker-cli-plugin-metadata"]  # each plugin answers this, without docker
    try:
        found = str(json.loads(subprocess.run(words, capture_output=True, check=False).stdout)["Version"])
    except (OSError, ValueError, KeyError, TypeError):
        found = "of an unknown version"
    return "" if project.version(found) >= project.OLDEST_COMPOSE else f"{plugin} is Compose {found}; {needed}"


def install_plugin(carried: Path) -> None:
    """Put the carried Compose plugin where everyone's docker finds it before those of packages, unless docker has one
    that is new enough. A user who may not write there gets it alone, and is told: the boot unit is root's."""
    if not carried.is_file() or project.compose_version() >= project.OLDEST_COMPOSE:
        return
    everyones, own = (Path(folder).expanduser() / PLUGIN for folder in PLUGIN_FOLDERS[:2])
    try:
        put(carried, everyones)
    except OSError:
        put(carried, own)
        say(f"the Compose plugin is now {own}, for this user; for root (boot unit): sudo install -D {own} {everyones}")
    else:
        say(f"the Compose plugin is now {everyones}")


def put(program: Path, target: Path) -> None:
    """Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(program, target)
    target.chmod(0o755)
