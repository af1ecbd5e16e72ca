# SPDX-License-Identifier: Apache-2.0
"""Compile the dependency groups of config/requirements/pyproject.toml to the locks that the environments are made from.

A group becomes `<group>.txt`: every package at an exact version with the hashes of its files, for every platform in
`tool.uv.environments`, and no address of an index. Groups named `shared-...` are parts of others and have no lock.
`tool.locks.<group>` says what uv is told about one group alone; the file explains the keys.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bundle.environments.environment import split_entries
from bundle.environments.uv import ensure_uv, registry_environment
from bundle.paths import REQUIREMENTS, shown
from bundle.progress import say
from tool_errors import EnvironmentSetupError, UsageError, run

SOURCE = REQUIREMENTS / "pyproject.toml"
# glibc 2.34 is that of openEuler 22.03, the oldest base that we name; Python 3.11.2 is Debian bookworm's.
PLATFORMS = ("x86_64-manylinux_2_34", "aarch64-manylinux_2_34")
MARKER = re.compile(r"^(?P<pin>[^;]+?) ; (?P<marker>.+?)(?P<tail> \\)?$")
HEADER = (
    "# Compiled from the group {name} of pyproject.toml by scripts/lock_requirements.sh; "
    "change that file, not this one.\n"
)


class Source:
    """config/requirements/pyproject.toml: its groups, and what uv is told about each."""

    def __init__(self, text: str) -> None:
        table = tomllib.loads(text)
        self._groups: dict[str, list[Any]] = table["dependency-groups"]
        self._settings: dict[str, dict[str, Any]] = table["tool"].get("locks", {})
        if unknown := self._settings.keys() - set(self.names):
            raise UsageError(f"{shown(SOURCE)}: tool.locks.{min(unknown)} names no group; expected one of {self.names}")

    @property
    def names(self) -> list[str]:
        """The groups that have a lock."""
        return sorted(name for name in self._groups if not name.startswith("shared-"))

    def settings(self, name: str) -> dict[str, Any]:
        """The table `tool.locks.<name>`."""
        return self._settings.get(name, {})

    def requirements(self, entries: Iterable[Any]) -> Iterator[str]:
        """The entries of a group as PEP 508 requirements, those of included groups in their place."""
        for entry in entries:
            if isinstance(entry, str):
                yield entry
            else:
                yield from self.requirements(self._groups[entry["include-group"]])

    def group(self, name: str) -> list[str]:
        """The requirements of a group."""
        return list(self.requirements(self._groups[name]))


def compile_lock(uv: Path, source: Source, name: str, *, upgrade: bool) -> str:
    """Resolve one group; returns uv's output: pins with markers and hashes, no index address.

    Versions of the present lock stay where they still fit, unless `upgrade` says otherwise.
    Raises EnvironmentSetupError with uv's explanation when the group does not resolve.
    """
    settings = source.settings(name)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        present, lock = REQUIREMENTS / f"{name}.txt", folder / "lock.txt"
        if present.is_file():
            lock.write_text(present.read_text())
        command = [str(uv), "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
        command += ["--no-emit-index-url", "--no-emit-find-links", "--no-header", "--no-annotate"]
        command += ["--group", f"{SOURCE.name}:{name}", "--output-file", str(lock)]
        for option in ("overrides", "excludes"):
            if entries := settings.get(option):
                file = folder / f"{option}.txt"
                file.write_text("".join(f"{line}\n" for line in source.requirements(entries)))
                command += [f"--{option}", str(file)]
        if date := settings.get("exclude-newer"):
            command += ["--exclude-newer", date]
        if settings.get("no-deps"):
            command.append("--no-deps")
        if upgrade:
            command.append("--upgrade")
        environment = registry_environment(mirrors_only=True)
        result = subprocess.run(command, cwd=REQUIREMENTS, env=environment, capture_output=True, text=True, check=False)
        if result.returncode:
            raise EnvironmentSetupError(f"the group {name} does not resolve: {result.stderr.strip()}")
        return lock.read_text()


def drop_universal_marker(entries: list[str]) -> list[str]:
    """Remove the marker that says no more than "one of the supported platforms", which nearly every entry carries.

    A marker of one processor says more, even where all entries have it.
    """
    found = (match["marker"] for entry in entries if (match := MARKER.match(entry.splitlines()[0])))
    markers = Counter(marker for marker in found if all(platform.partition("-")[0] in marker for platform in PLATFORMS))
    if not markers:
        return entries
    universal = markers.most_common(1)[0][0]
    return [entry.replace(f" ; {universal}", "", 1) for entry in entries]


def select_wheels(lock: Path, platform: str) -> int:
    """The number of wheels that a lock selects on a platform: every entry that holds there has one, by its locked hash.

    uv selects for another platform than this one and installs nothing. The index must answer. Raises
    EnvironmentSetupError with uv's explanation where an entry has no wheel there.
    """
    with tempfile.TemporaryDirectory() as target:
        command = [str(ensure_uv()), "pip", "sync", "--dry-run", "--target", target, "--python-version", "3.11.2"]
        command += ["--python-platform", platform, "--only-binary", ":all:", "--require-hashes", str(lock)]
        # A folder of wheels holds those of this machine alone.
        environment = registry_environment(mirrors_only=True)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentSetupError(f"{lock.name} cannot be installed on {platform}: {done.stderr.strip()}")
    return sum(line.startswith(" + ") for line in done.stderr.splitlines())


def lock(names: list[str], *, upgrade: bool) -> None:
    """Write the locks of the groups named, or of all, and see that each platform has wheels for them.

    Raises UsageError for a name that is none of theirs, EnvironmentSetupError for a package without a wheel.
    """
    source, uv = Source(SOURCE.read_text()), ensure_uv()
    if unknown := [name for name in names if name not in source.names]:
        raise UsageError(f"no group {unknown[0]!r} in {shown(SOURCE)}; expected one of {', '.join(source.names)}")
    for name in names or source.names:
        entries = drop_universal_marker(split_entries(compile_lock(uv, source, name, upgrade=upgrade)))
        (REQUIREMENTS / f"{name}.txt").write_text(HEADER.format(name=name) + "".join(entries))
        if not source.settings(name).get("no-deps"):
            for platform in PLATFORMS:
                select_wheels(REQUIREMENTS / f"{name}.txt", platform)
        say(f"{name}: {len(entries)} packages")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/lock_requirements.sh", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--upgrade", action="store_true", help="take the newest versions that fit, not those locked now"
    )
    parser.add_argument("environments", nargs="*", metavar="ENV", help="default: all")
    options = parser.parse_args(words)
    return run(lambda: lock(options.environments, upgrade=options.upgrade))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
