# SPDX-License-Identifier: Apache-2.0
"""scripts/run_demo.sh: from a file to its Markdown, setting up and starting whatever is missing on the way."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import client, inputs
from .containers import Containers
from .environment import Environment
from .environments import ENVIRONMENTS, is_ready, set_up
from .errors import BundleError, UsageError, exit_status
from .paths import RUN_DIR, shown
from .progress import say, step
from .services import Services
from .settings import LocalSettings

PAGE_SECONDS = 600
# In containers the parser alone reads the documents; how many pages they have is not known before.
UNKNOWN_PAGES = 50


class Interrupted(BaseException):
    """Ctrl-C or a request to end."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.status = 128 + signum


def parse_arguments(words: list[str]) -> argparse.Namespace:
    """The command line; argparse itself ends with status 2 for what it cannot read."""
    parser = argparse.ArgumentParser(prog="scripts/run_demo.sh", description="Parse images and PDFs to Markdown.")
    parser.add_argument("paths", metavar="PATH", nargs="*", help="image (PNG, JPEG, TIFF, BMP, WebP) or PDF")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("output"),
                        help="where <name>.md, <name>.json and images/ are written (default: output)")
    parser.add_argument("--mode", choices=("auto", "docker", "local"), default="auto",
                        help="run the services in containers or as local processes (default: auto)")
    parser.add_argument("--down", action="store_true", help="stop the services")
    options = parser.parse_args(words)
    if not options.paths and not options.down:
        parser.error("name at least one image or PDF, e.g. tests/data/report.png")
    if options.paths and options.down:
        parser.error("--down takes no PATH")
    return options


def choose_mode(options: argparse.Namespace, services: Services, containers: Containers) -> str:
    """`docker` or `local`: for `auto` what runs already, else docker where an engine answers.

    Local mode, with a word, where the images cannot be built here; and where they are missing while its environments are
    there.
    """
    if options.mode != "auto":
        return options.mode
    if services.running() or not containers.suits_this_machine():
        return "local"
    if options.down:
        return "docker" if containers.exist() else "local"
    if not containers.has_images():
        if all(is_ready(environment) for environment in local_environments()):
            return "local"
        try:
            containers.build()
        except BundleError as error:
            say(f"{error}; going on without containers (--mode local)")
            return "local"
    return "docker"


def local_environments() -> list[Environment]:
    """The environments that local mode needs."""
    return [ENVIRONMENTS[name] for name in ("tools", "parser", "vlm")]


@contextmanager
def exclusive() -> Iterator[None]:
    """Hold the lock under which environments are made and services started: two calls must not do it at once."""
    RUN_DIR.mkdir(parents=True, exist_ok=True)
    with (RUN_DIR / "lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step("waiting for another call of this script to finish its set-up"):
                fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def set_up_environments() -> None:
    """Make the three environments of local mode where they are missing or out of date."""
    for environment in local_environments():
        if not is_ready(environment):
            set_up(environment)


def choose_weights(settings: LocalSettings) -> dict[str, object]:
    """Ask the launcher which weights it would serve; its banner goes to stderr. Raises UsageError with its line."""
    result = subprocess.run([str(ENVIRONMENTS["vlm"].python), "-m", "vlm_server", "--print-weights"],
                            env=dict(settings.values), capture_output=True, text=True, check=False)
    if result.returncode:
        raise UsageError((result.stderr.strip().splitlines() or ["the launcher failed"])[-1].removeprefix("error: "))
    sys.stderr.write(result.stderr)
    return json.loads(result.stdout)


def parse_all(documents: list[inputs.Document], pages: dict[str, int], url: str, out: Path,
              weights: dict[str, object]) -> None:
    """Parse one document after the other: Markdown to stdout, files to `out`."""
    for document in documents:
        count = pages.get(str(document.path))
        told = "" if count is None else f" ({count} page{'s' if count != 1 else ''})"
        with step(f"parsing {document.path}{told}"):
            result = client.request(url, document, timeout=PAGE_SECONDS * (count or UNKNOWN_PAGES))
            parsed = client.collect(document, result, weights)
        try:
            client.write(parsed, document.stem, out)
        except OSError as error:
            raise UsageError(f"--out {out}: cannot be written ({error.strerror})") from error
        say(f"wrote {out / document.stem}.md and .json" + (f", {len(parsed.images)} images" if parsed.images else ""))
        # Bytes, because a locale's encoding may lack what the page holds.
        sys.stdout.buffer.write(parsed.markdown.encode())
        sys.stdout.buffer.flush()


def check_out(out: Path) -> None:
    """Raise UsageError unless `out` is a folder that can be written, or can be made."""
    nearest = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise UsageError(f"--out {out}: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"--out {out}: {nearest} cannot be written")


def run(options: argparse.Namespace) -> int:
    """The whole of a call; what it started is stopped again unless every page was parsed."""
    settings = LocalSettings.load(os.environ)
    services = Services(settings)
    containers = Containers(settings)
    mode = choose_mode(options, services, containers)
    if options.down:
        stopped = (containers if mode == "docker" else services).down()
        say("services stopped" if stopped else "no services were running")
        return 0
    documents = inputs.open_documents(options.paths)
    check_out(options.out)
    if mode == "docker":
        services, pages = containers, {}
    try:
        with exclusive():
            services.check()
            weights: dict[str, object] = {}
            if mode == "local":
                set_up_environments()
                pages = inputs.decode(documents)
                weights = choose_weights(settings)
            services.start()
            ready = services.wait_ready()
        parse_all(documents, pages, settings.parser_url, options.out, ready or weights)
    except BaseException:
        # From here on a second Ctrl-C would only leave processes behind.
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        services.undo()
        raise
    logs = "docker compose logs" if mode == "docker" else shown(RUN_DIR / "logs")
    say(f"the services keep running at {settings.parser_url} (logs: {logs}); stop them with scripts/run_demo.sh --down")
    return 0


def interrupt(signum: int, _frame: object) -> None:
    """Signal handler: unwind, so that what was started is stopped."""
    raise Interrupted(signum)


def main(words: list[str]) -> int:
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, interrupt)
    try:
        return run(parse_arguments(words))
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    except BrokenPipeError:
        # Whoever read the Markdown has gone; the interpreter must not try to flush it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print("error: stdout was closed before all pages were written", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        print("interrupted; what this call had started is stopped", file=sys.stderr)
        return interrupted.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
