# SPDX-License-Identifier: Apache-2.0
"""What a node builds its images from, where they cannot be built here: wheels, base images and sources for its kind of
processor. System packages stay out: a build takes them from the node's own archive (APT_SOURCES)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundle.compose.images import hardware
from bundle.offline.engine import docker, platform
from bundle.paths import ROOT, VALUES
from bundle.progress import last_line, say, step
from tool_errors import EnvironmentSetupError, UsageError

# `uname -m` -> what container engines call it.
PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}
# Build context -> its folder in the archive, and the setting that names it.
SOURCES = {
    "vllm_ascend": ("sources/vllm-ascend", "VLLM_ASCEND_SOURCE"),
    "catlass": ("sources/catlass", "CATLASS_SOURCE"),
}
# What a site may have chosen besides, and the node's build must choose again.
CHOICES = ("CANN_IMAGE", "BASE_IMAGE", "VLLM_ASCEND_IMAGE")


@dataclass(frozen=True)
class Parts:
    """Names of base images that are there; files with their names in the archive; settings that say where they lie; the
    words by which the engine means the images for that processor (`engine.platform`)."""

    images: list[str]
    files: list[tuple[Path, str]]
    settings: dict[str, str]
    platform: tuple[str, ...]


def builds(corpus: bool) -> list[dict[str, Any]]:
    """The build sections of our services as compose reads them."""
    profiles = ("--profile", "corpus") if corpus else ()
    text = docker("compose", *profiles, "config", "--format", "json", HARDWARE=hardware(VALUES))
    return [service["build"] for service in json.loads(text)["services"].values() if "build" in service]


def base_images(found: list[dict[str, Any]]) -> dict[str, str]:
    """Base image -> what to pull for it: itself, or its pinned digest."""
    named = {}
    for build in found:
        kind = "CANN" if "CANN_IMAGE" in build["args"] else "BASE"
        image, pinned = build["args"][f"{kind}_IMAGE"], build["args"].get(f"{kind}_DIGEST")
        named[image] = f"{image}@{pinned}" if pinned else image
        if compiled := build["args"].get("VLLM_ASCEND_IMAGE"):
            named[compiled] = compiled
    return named


def processor_of(image: str, of: tuple[str, ...]) -> str:
    """The processor that an image is for; "" where there is none of that name, or none that `of` means."""
    try:
        return docker("image", "inspect", *of, "--format", "{{.Architecture}}", image)
    except EnvironmentSetupError:
        return ""


@contextmanager
def pulled(images: Mapping[str, str], machine: str) -> Iterator[list[str]]:
    """The base images for another processor under their own names; afterwards these are this machine's images again."""
    before, of = {}, platform(PROCESSORS[machine])
    try:
        for image, source in images.items():
            known = docker("image", "ls", "--quiet", "--no-trunc", image)
            try:
                with step(f"pulling {source} for {machine}"):
                    docker("pull", "--platform", f"linux/{PROCESSORS[machine]}", source)
            except EnvironmentSetupError as error:
                # One that was built here, as VLLM_ASCEND_IMAGE may be, lies in no registry.
                if not known or processor_of(image, of) != PROCESSORS[machine]:
                    raise
                say(f"{image} as it is here: {error}")
            if known:
                before[image] = known.splitlines()[0]
            if source != image:
                docker("tag", source, image)
            got = processor_of(image, of)
            if got != PROCESSORS[machine]:
                raise EnvironmentSetupError(
                    f"{source} has no image for {machine}, the registry gave one for {got or 'another'}"
                )
        yield list(images)
    finally:
        for image, identity in before.items():
            docker("tag", identity, image)


def source_files(found: list[dict[str, Any]], scratch: Path) -> Iterator[tuple[str, Path]]:
    """(build context, folder) of the sources that only git has: the site's folder, or the pinned commit fetched now.

    Raises EnvironmentSetupError where git does not reach it.
    """
    contexts = {name: place for build in found for name, place in (build.get("additional_contexts") or {}).items()}
    for name in SOURCES:
        place = contexts.get(name, "")
        address, at, commit = place.partition("#")
        if at:
            folder = scratch / name
            with step(f"fetching {address} at {commit}"):
                for words in (
                    ("init", "-q", str(folder)),
                    ("-C", str(folder), "fetch", "-q", "--depth", "1", address, commit),
                ):
                    run_git(*words)
                run_git("-C", str(folder), "checkout", "-q", "FETCH_HEAD")
            yield name, folder
        elif place and any(path.name != ".gitkeep" for path in Path(place).glob("*")):
            yield name, Path(place)


def run_git(*words: str) -> None:
    answer = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    if answer.returncode:
        last = last_line(answer.stderr)
        raise EnvironmentSetupError(f"git {' '.join(words)}: {last}; set VLLM_ASCEND_SOURCE to a folder of the sources")


@contextmanager
def collected(machine: str, corpus: bool) -> Iterator[Parts]:
    """All of it for `machine`. Raises ToolError."""
    script = ROOT / "scripts/fetch_wheels.sh"
    if not script.is_file():
        raise UsageError("--to-build fetches wheels, for which this unpacked archive has no script; use a checkout")
    found = builds(corpus)
    environment = next(build["args"]["VLM_ENVIRONMENT"] for build in found if "VLM_ENVIRONMENT" in build["args"])
    wheels = ROOT / ".wheels" / machine
    names = ["supervisor", "parser", environment, *(["corpus"] if corpus else [])]
    fetch = [script, "--platform", machine, "--dir", wheels, *names]
    if subprocess.run(fetch, check=False).returncode:
        raise EnvironmentSetupError(f"the wheels for {machine} are incomplete; the last line says why")
    files = [(path, f".wheels/{machine}/{path.name}") for path in sorted(wheels.iterdir()) if path.is_file()]
    settings = {"WHEELS_DIR": f"./.wheels/{machine}", **{name: VALUES[name] for name in CHOICES if VALUES.get(name)}}
    with tempfile.TemporaryDirectory() as scratch, pulled(base_images(found), machine) as images:
        for name, folder in source_files(found, Path(scratch)):
            carried, setting = SOURCES[name]
            inside = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts]
            files += [(path, f"{carried}/{path.relative_to(folder)}") for path in inside]
            settings[setting] = f"../../{carried}"  # from config/stacks, whose files read it
        yield Parts(images, files, settings, platform(PROCESSORS[machine]))
