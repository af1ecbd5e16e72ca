# SPDX-License-Identifier: Apache-2.0
"""A folder of wheels for one platform: every file that the locks name, each checked against its locked hash.

Environments and images install from it without a registry (`PIP_NO_INDEX`, `PIP_FIND_LINKS`).
"""

from __future__ import annotations

import argparse
import html
import http.client
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import declared_settings
import stacks
from bundle.environments.cuda import PACKAGE
from bundle.environments.environment import TORCH, Environment, source_lock, split_entries, torch_pins
from bundle.environments.package_index import BOOTSTRAP, index_opener, wheel_links
from bundle.environments.setup import chosen
from bundle.environments.uv import ensure_uv, registry_environment
from bundle.paths import REQUIREMENTS, ROOT, RUN_DIR, VALUES, shown
from bundle.progress import last_line, run_logged, say
from served_weights.manifest import digest
from tool_errors import RESUMABLE, EnvironmentSetupError, run

PLATFORMS = ("x86_64", "aarch64")
# Newest first; a file for an older C library runs on a newer one. Debian bookworm has glibc 2.36, Ubuntu 22.04 2.35.
GLIBC = ("2_35", "2_34", "2_31", "2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")
LEGACY = ("manylinux2014", "manylinux2010", "manylinux1")
# pip takes half a second before it fetches anything, and an interrupted call loses one group.
CHUNK = 48
MANIFEST = "SHA256SUMS"
# Evaluates the locks' markers for another platform than this one: pip itself would ask this machine. A marker that
# holds for the first or a late Python 3.11 counts: the systems have different ones, Debian bookworm 3.11.2.
MARKERS = """
import json, sys
from pip._vendor.packaging.markers import Marker
environment = {"platform_machine": sys.argv[1], "python_version": "3.11",
               "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": "",
               "implementation_name": "cpython", "platform_python_implementation": "CPython"}
environments = [environment | {"python_full_version": version} for version in ("3.11.2", "3.11.20")]
print(json.dumps([not text or any(map(Marker(text).evaluate, environments)) for text in json.load(sys.stdin)]))
"""


@dataclass(frozen=True)
class Pin:
    """One entry of a lock: `name==version` and the SHA-256 digests of the files that may be installed for it."""

    requirement: str
    digests: frozenset[str]

    def __str__(self) -> str:
        """As in a lock."""
        return " ".join([self.requirement, *(f"--hash=sha256:{value}" for value in sorted(self.digests))])


def read_pins(locks: list[Path], machine: str) -> list[Pin]:
    """The entries of the locks that hold on `machine`, each once."""
    heads: list[str] = []
    markers: list[str] = []
    digests: list[frozenset[str]] = []
    for lock in locks:
        for entry in split_entries(lock.read_text()):
            head, _, marker = entry.splitlines()[0].rstrip("\\ ").partition(" ; ")
            heads.append(head.strip())
            markers.append(marker.strip())
            digests.append(frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)))
    answer = subprocess.run(
        [str(BOOTSTRAP), "-c", MARKERS, machine], input=json.dumps(markers), capture_output=True, text=True, check=True
    )
    chosen = {
        head: Pin(head, hashes) for head, hashes, holds in zip(heads, digests, json.loads(answer.stdout)) if holds
    }
    return list(chosen.values())


def present(folder: Path) -> dict[str, str]:
    """Digest -> name of the wheels in `folder`, read anew: a half-written file has a digest that no lock names."""
    return {digest(path): path.name for path in sorted(folder.glob("*.whl"))}


def platform_options(machine: str) -> list[str]:
    """pip's words for wheels of CPython 3.11 on Linux."""
    tags = [f"manylinux_{version}_{machine}" for version in GLIBC] + [f"{name}_{machine}" for name in LEGACY]
    return [
        "--python-version",
        "3.11",
        "--implementation",
        "cp",
        "--abi",
        "cp311",
        "--abi",
        "abi3",
        "--abi",
        "none",
        *(word for tag in (*tags, f"linux_{machine}") for word in ("--platform", tag)),
    ]


def batches(pins: list[Pin]) -> list[list[Pin]]:
    """The pins in groups of at most CHUNK. Two versions of a package, of two environments, never stand in one: pip
    would call them a conflict."""
    groups: list[list[Pin]] = []
    for pin in pins:
        name = pin.requirement.partition("==")[0]
        fitting = (
            group
            for group in groups
            if len(group) < CHUNK and all(other.requirement.partition("==")[0] != name for other in group)
        )
        group = next(fitting, None)
        if group is None:
            groups.append(group := [])
        group.append(pin)
    return groups


def download(pins: list[Pin], folder: Path, machine: str, log: Path) -> None:
    """Fetch the pins into `folder`, group by group, so that an interrupted call loses little."""
    done = 0
    for part in batches(pins):
        with tempfile.TemporaryDirectory() as scratch:
            lock, page = Path(scratch) / "lock.txt", Path(scratch) / "links.html"
            lock.write_text("".join(f"{pin}\n" for pin in part))
            page.write_text(wheel_links(lock, f"{machine}-manylinux_{GLIBC[0]}"))
            what = f"wheels {done + 1} to {done + len(part)} of {len(pins)}"
            done += len(part)
            words = ["--require-hashes", "--ignore-requires-python", "-r", str(lock)]
            linked = [*words, "--no-index", "--find-links", str(page)]
            if page.stat().st_size and not pip_download(linked, folder, machine, log, what):
                continue
            if pip_download(words, folder, machine, log, what):  # it asks the index itself, and says why it fails
                last = last_line(log.read_text(errors="replace"))
                raise EnvironmentSetupError(f"{what}: {last} (log: {shown(log)}); run the same command to go on")


def download_cpu_torch(environment: Environment, index: str, folder: Path, machine: str, log: Path) -> None:
    """The `+cpu` builds of torch from an index of the site's choice; the locks know no hashes of theirs."""
    builds = [f"{name}=={version}+cpu" for name, version in torch_pins(environment)]
    what = f"CPU builds of torch for {environment.name}"
    if pip_download(["--index-url", index, *builds], folder, machine, log, what):
        raise EnvironmentSetupError(f"TORCH_CPU_INDEX_URL: the index does not give {what} (log: {shown(log)})")


def pip_download(words: list[str], folder: Path, machine: str, log: Path, what: str) -> int:
    """Let pip fetch wheels for `machine` into `folder`; returns its exit status."""
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", *platform_options(machine), "-d", str(folder)]
    return run_logged([str(BOOTSTRAP), "-m", "pip", "download", *options, *words], log, what, dict(os.environ))


def download_source(lock: Path, folder: Path) -> None:
    """The source distribution that a lock pins. pip would want to build it only to read its name, so it is fetched
    here."""
    pin = read_pins([lock], platform.machine())[0]
    name, _, version = pin.requirement.partition("==")
    file = f"{name}-{version}.tar.gz"
    if (folder / file).is_file() and digest(folder / file) in pin.digests:
        return
    index, opener = index_opener()
    page, part = f"{index.rstrip('/')}/{name}/", folder / f"{file}.part"
    try:
        with opener.open(page, timeout=60) as answer:
            links = re.findall(rf'href="([^"]*{re.escape(file)})(?:#[^"]*)?"', answer.read().decode())
        if not links:
            raise EnvironmentSetupError(f"the package index has no {file}")
        address = urllib.parse.urljoin(page, html.unescape(links[0]))
        with opener.open(address, timeout=600) as answer, part.open("wb") as stream:
            shutil.copyfileobj(answer, stream)
    except (urllib.error.URLError, http.client.HTTPException) as error:
        raise EnvironmentSetupError(
            f"{file}: the package index cannot be asked ({error}); see pip's settings"
        ) from error
    if digest(part) not in pin.digests:
        part.unlink()
        raise EnvironmentSetupError(f"{file} is not the file that {shown(lock)} names; run the same command again")
    part.replace(folder / file)


def wanted(pins: list[Pin], *, cuda: bool, other_torch: bool) -> list[Pin]:
    """The pins without CUDA's large libraries, if they are not wanted, and without torch where its builds come from
    another index."""
    unwanted = [pattern for pattern, applies in ((PACKAGE, not cuda), (TORCH, other_torch)) if applies]
    return [pin for pin in pins if not any(pattern.match(pin.requirement) for pattern in unwanted)]


def collect(environments: list[Environment], folder: Path, machine: str, *, cuda: bool) -> None:
    """Bring `folder` to hold what the environments are installed from, and write its manifest."""
    ensure_uv()
    registry_environment()
    folder.mkdir(parents=True, exist_ok=True)
    # Not in the folder: what a build is given should only change when the wheels do.
    log = RUN_DIR / "logs" / "fetch-wheels.log"
    index = VALUES.get("TORCH_CPU_INDEX_URL", "") if machine == "x86_64" else ""
    locks = [REQUIREMENTS / "bootstrap.txt", *(environment.lock for environment in environments)]
    for environment in environments:
        if index and torch_pins(environment):
            download_cpu_torch(environment, index, folder, machine, log)
        if environment.name.startswith("vlm-ascend"):
            download_source(source_lock(environment), folder)
    pins = wanted(read_pins(locks, machine), cuda=cuda, other_torch=bool(index))
    names = present(folder)
    missing = [pin for pin in pins if not pin.digests & set(names)]
    say(f"{shown(folder)}: {len(pins) - len(missing)} of {len(pins)} wheels are there")
    if missing:
        download(missing, folder, machine, log)
        names = present(folder)
    if lacking := [pin.requirement for pin in pins if not pin.digests & set(names)]:
        raise EnvironmentSetupError(
            f"{shown(folder)} lacks {lacking[0]} (or has it damaged); run the same command again"
        )
    (folder / MANIFEST).write_text(
        "".join(f"{value}  {name}\n" for value, name in sorted(names.items(), key=lambda item: item[1]))
    )
    size = sum(path.stat().st_size for path in folder.glob("*.whl"))
    say(f"{shown(folder)}: {len(names)} wheels, {size / 2**30:.1f} GiB, listed in {MANIFEST}")


def of_images(values: Mapping[str, str]) -> list[str]:
    """The environments of the images that compose builds with these settings. Raises WrongValue."""
    stack = stacks.STACKS[declared_settings.choice(values, "STACK")]
    return ["supervisor", stack.environment(values.get("HARDWARE", "")), "parser"]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fetch_wheels.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--platform", choices=PLATFORMS, default=platform.machine())
    parser.add_argument("--dir", type=Path, help="default: WHEELS_DIR, else .wheels/PLATFORM")
    parser.add_argument(
        "--cuda",
        action="store_true",
        help="with NVIDIA's libraries, for scripts/setup_env.sh --cuda",
    )
    parser.add_argument(
        "environments", nargs="*", metavar="ENV", help="default: what the images of HARDWARE and STACK need"
    )
    options = parser.parse_args(words)
    folder = options.dir or Path(VALUES.get("WHEELS_DIR") or ROOT / ".wheels" / options.platform)

    def do() -> None:
        names = options.environments or of_images(VALUES)
        collect(chosen(names), (ROOT / folder).resolve(), options.platform, cuda=options.cuda)

    return run(do, RESUMABLE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
