# SPDX-License-Identifier: Apache-2.0
"""scripts/run_demo.sh: from a file to its Markdown, setting up and starting whatever is missing on the way.

`run_demo` is the procedure; each step's module is named where it is called.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bundle import interrupts, parser_client
from bundle.compose.containers import Containers
from bundle.demo import inputs, mode, outputs
from bundle.demo.prepare import Prepared, exclusive, prepare_local
from bundle.local_mode.services import Services
from bundle.local_mode.settings import LocalSettings
from bundle.paths import RUN_DIR, VALUES, shown
from bundle.progress import plural, say, step
from file_types import SUPPORTED
from tool_errors import FAILED, run

PAGE_SECONDS = 600
# In docker mode only the parser reads the documents, so their numbers of pages are not known here.
UNKNOWN_PAGES = 50


def run_demo(words: list[str]) -> int:
    """The whole procedure. What this call started is stopped again unless every page was parsed. Returns the exit
    status: 0 if every page is complete, 1 if a block of one is not."""
    options = arguments(words)
    settings, url = LocalSettings.of(VALUES), parser_client.address(VALUES)
    local, containers = Services(settings), Containers()
    chosen = mode.choose(options, settings, local, containers)
    services = containers if chosen == "docker" else local
    if options.down:
        say("services stopped" if services.down() else "no services were running")
        return 0
    documents = inputs.open_documents(options.paths)
    outputs.check_folder(options.out)
    try:
        with exclusive():
            services.check()
            prepared = Prepared()
            if chosen == "local":
                prepared = prepare_local(settings, documents, local.start, install=not options.no_install)
            services.start()
            weights = services.wait_ready() or prepared.weights
        complete = [
            parse(document, prepared.pages.get(str(document.path)), url, options.out, weights) for document in documents
        ]
    except BaseException:
        interrupts.ignore_signals()
        services.undo()
        raise
    logs = "docker compose logs" if chosen == "docker" else shown(RUN_DIR / "logs")
    say(f"the services keep running at {url} (logs: {logs}); stop them with scripts/run_demo.sh --down")
    return 0 if all(complete) else FAILED


def arguments(words: list[str]) -> argparse.Namespace:
    """Return `paths` and the options; argparse ends the process with status 2 for what it cannot read."""
    parser = argparse.ArgumentParser(prog="scripts/run_demo.sh", description="Parse images and PDFs to Markdown.")
    parser.add_argument("paths", metavar="PATH", nargs="*", help=SUPPORTED)
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("output"),
        help="where <name>.md, <name>.json and images/ are written (default: output)",
    )
    parser.add_argument(
        "--mode",
        choices=("auto", "docker", "local"),
        default="auto",
        help="run the services in containers or as local processes (default: auto)",
    )
    parser.add_argument(
        "--no-install",
        action="store_true",
        help="as root: install no system packages, say which are missing",
    )
    parser.add_argument("--down", action="store_true", help="stop the services")
    options = parser.parse_args(words)
    if not options.paths and not options.down:
        parser.error("name at least one image or PDF, e.g. tests/data/report.png")
    if options.paths and options.down:
        parser.error("--down takes no PATH")
    return options


def parse(document: inputs.Document, pages: int | None, url: str, out: Path, weights: dict[str, object]) -> bool:
    """Parse one document: Markdown to stdout, files to `out`. `pages` is None if their number is not known. Returns
    whether every block was read."""
    interrupts.check()
    count = "" if pages is None else f" ({plural(pages, 'page')})"
    with step(f"parsing {document.path}{count}"):
        timeout = PAGE_SECONDS * (pages or UNKNOWN_PAGES)
        result = parser_client.request(url, document.path, document.file_type, timeout, restructurePages=True)
        parsed = outputs.collect(document, result, weights)
    outputs.write(parsed, document.stem, out)
    for note in parsed.notes:
        say(f"note: {document.path}, {note}")
    say(
        f"wrote {out / document.stem}.md and .json"
        + (f", {plural(len(parsed.images), 'image')}" if parsed.images else "")
    )
    # Bytes, because a locale's encoding may lack what the page holds.
    sys.stdout.buffer.write(parsed.markdown.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
    return not parsed.partial


def main(words: list[str]) -> int:
    """Run the procedure and return the exit status; an error becomes one line on stderr."""
    interrupts.raise_interrupted()
    try:
        return run(lambda: run_demo(words))
    except interrupts.Interrupted as told:
        print("interrupted; everything that this call started is stopped", file=sys.stderr)
        return told.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
