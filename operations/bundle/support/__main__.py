# SPDX-License-Identifier: Apache-2.0
"""scripts/support_bundle.sh: collect, take out secrets, write one archive. Documents are never in it."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePath

import declared_settings
import npu_smi
from bundle import parser_client
from bundle.archives import pack
from bundle.compose import project
from bundle.paths import ENV_FILE, ROOT, VALUES
from bundle.progress import say, step
from bundle.support.redact import redactor
from bundle.support.sources import Source, sources
from tool_errors import ServiceError, run

# Of one file; the end of a longer text is kept, since what went wrong last stands there.
MOST_BYTES = 20 << 20
PLOG = "/var/lib/paddleocr-vl/ascend-log"
PLOG_SECONDS = 300


def output(source: Source) -> str:
    """What the command prints, with its status if that is not 0, or a line that says that it took too long; one line if
    it cannot be run."""
    try:
        done = subprocess.run(
            source.command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=source.timeout,
            check=False,
        )
        printed, end = done.stdout, f"\nexit status {done.returncode}\n" if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        printed, end = late.stdout or b"", f"\n{late}\n"
    except OSError as error:
        return f"{' '.join(source.command)}: {error}\n"
    return printed[-MOST_BYTES:].decode("utf-8", "replace") + end


def page(path: str) -> str:
    """A page of the parser, or why there is none."""
    url = f"{parser_client.address(VALUES)}{path}"
    try:
        return parser_client.get(url, 30, MOST_BYTES)
    except OSError as error:
        return f"{url}: {error}\n"


def plogs() -> Iterator[tuple[str, str]]:
    """CANN's logs of all replicas, names below `plog/`, and `plog-next/` for the second container."""
    try:
        rows = project.containers()
    except ServiceError as error:
        yield "plog/README.txt", f"no logs of CANN: {error}\n"
        return
    for service, folder in (("vlm", "plog"), ("vlm-next", "plog-next")):
        if service in rows:
            yield from plogs_of(rows[service]["ID"], folder)
        elif service == "vlm":
            yield f"{folder}/README.txt", "no logs of CANN: there is no container vlm\n"


def plogs_of(container: str, folder: str) -> Iterator[tuple[str, str]]:
    """The logs of one container. They are copied, since nothing can be run in one that has ended, or starts again and
    again: then they are wanted most."""
    command = ["docker", "cp", f"{container}:{PLOG}", "-"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=PLOG_SECONDS, check=False
        )
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as logs:
            for member in logs:
                file = logs.extractfile(member) if member.isfile() else None
                if file:
                    name = member.name.removeprefix(f"{PurePath(PLOG).name}/")
                    yield f"{folder}/{name}", file.read()[-MOST_BYTES:].decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
        yield f"{folder}/README.txt", f"no logs of CANN: {error}\n"


def collect() -> Iterator[tuple[str, str, str]]:
    """Name, reason and text of every file, secrets still in it."""
    if ENV_FILE.is_file():
        yield "settings/env.txt", "the file .env", ENV_FILE.read_text(encoding="utf-8", errors="replace")
    own = {
        name: value
        for name, value in os.environ.items()
        if name in declared_settings.names() or name.startswith(declared_settings.PREFIXES)
    }
    yield "settings/shell.txt", "settings of this shell", "".join(f"{name}={own[name]}\n" for name in sorted(own))
    for source in sources(sorted({die.npu for die in npu_smi.parse(npu_smi.ask("info").text).dies})):
        yield source.name, source.why, output(source)
    for path, name in (("/metrics", "metrics"), ("/health/ready", "ready")):
        yield f"parser/{name}.txt", f"GET {path}", page(path)
    for name, text in plogs():
        yield name, "CANN's log", text


def write(path: Path) -> None:
    """Write the archive, secrets taken out. Raises UsageError."""
    clean, contents = redactor(), []
    with pack(path, f"paddleocr-vl-support-{time.strftime('%Y%m%d-%H%M%S')}") as add:
        for name, why, text in collect():
            add(name, clean(text))
            contents.append(f"{name}: {why}")
        add("CONTENTS.txt", "\n".join(contents) + "\n")


def main(words: list[str]) -> int:
    arguments = argparse.ArgumentParser(prog="scripts/support_bundle.sh", description=__doc__.partition(": ")[2])
    arguments.add_argument("--out", type=Path, metavar="FILE", default=Path("support-bundle.tar.gz"))
    options = arguments.parse_args(words)
    with step("collecting"):
        write(options.out)
    say(f"wrote {options.out}; look through it before you send it: settings and logs name your hosts and users")
    return 0


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
