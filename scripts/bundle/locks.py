# SPDX-License-Identifier: Apache-2.0
"""Compile config/requirements/<env>.in to the locks that the environments are made from.

`<env>.txt` holds everything but torch and what torch drags in; that part is `torch-<env>.txt`, so that a leaner build
of torch can be named at install time. Both carry hashes and resolve for every platform in
config/requirements/pyproject.toml.
A line `# exclude-newer: YYYY-MM-DD` in the .in file holds back everything that was published later; `# no-deps` locks
what the file names and nothing that it needs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from .errors import BundleError, EnvironmentSetupError, UsageError, exit_status
from .paths import REQUIREMENTS, shown
from .progress import say
from .uv import ensure_uv, registry_environment

TORCH_PACKAGE = re.compile(r"^(torch|torchvision|torchaudio|triton|nvidia-[a-z0-9-]+)==")
MARKER = re.compile(r"^(?P<pin>[^;]+?) ; (?P<marker>.+?)(?P<tail> \\)?$")
EXCLUDE_NEWER = re.compile(r"^# exclude-newer: (\d{4}-\d{2}-\d{2})$", re.MULTILINE)
HEADER = "# Compiled from {name}.in by scripts/lock_requirements.sh; change that file, not this one.\n"


def compile_lock(uv: Path, name: str) -> str:
    """Resolve one environment; returns uv's output: pins with markers and hashes, no index address."""
    command = [str(uv), "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes",
               "--no-emit-index-url", "--no-emit-find-links", "--no-header", "--no-annotate", "--upgrade"]
    if (REQUIREMENTS / f"{name}.overrides.txt").is_file():
        command += ["--override", f"{name}.overrides.txt"]
    if date := EXCLUDE_NEWER.search((REQUIREMENTS / f"{name}.in").read_text()):
        command += ["--exclude-newer", date[1]]
    if "# no-deps\n" in (REQUIREMENTS / f"{name}.in").read_text():
        command.append("--no-deps")
    result = subprocess.run([*command, f"{name}.in"], cwd=REQUIREMENTS, env=registry_environment(mirrors_only=True),
                            capture_output=True, text=True, check=False)
    if result.returncode:
        raise EnvironmentSetupError(f"{name}.in does not resolve: {result.stderr.strip()}")
    return result.stdout


def split_entries(lock: str) -> list[str]:
    """Cut a lock into entries: a pin line with the hash lines that follow it."""
    entries: list[str] = []
    for line in lock.splitlines(keepends=True):
        if line[0].isspace():
            entries[-1] += line
        else:
            entries.append(line)
    return entries


def drop_universal_marker(entries: list[str]) -> list[str]:
    """Remove the marker that says no more than "one of the supported platforms", which nearly every entry carries."""
    markers = Counter(match["marker"] for entry in entries if (match := MARKER.match(entry.splitlines()[0])))
    if not markers:
        return entries
    universal = markers.most_common(1)[0][0]
    return [entry.replace(f" ; {universal}", "", 1) for entry in entries]


def lock(uv: Path, name: str) -> None:
    """Write `<name>.txt` and, where torch is among the requirements, `torch-<name>.txt`."""
    entries = drop_universal_marker(split_entries(compile_lock(uv, name)))
    torch = [entry for entry in entries if TORCH_PACKAGE.match(entry)]
    rest = [entry for entry in entries if not TORCH_PACKAGE.match(entry)]
    (REQUIREMENTS / f"{name}.txt").write_text(HEADER.format(name=name) + "".join(rest))
    if torch:
        (REQUIREMENTS / f"torch-{name}.txt").write_text(HEADER.format(name=name) + "".join(torch))
    say(f"{name}: {len(rest)} packages" + (f", torch with {len(torch) - 1} more" if torch else ""))


def main(names: list[str]) -> int:
    known = sorted(path.stem for path in REQUIREMENTS.glob("*.in"))
    try:
        uv = ensure_uv()
        for name in names or known:
            if name not in known:
                raise UsageError(f"no {name}.in in {shown(REQUIREMENTS)}; expected one of {', '.join(known)}")
            lock(uv, name)
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
