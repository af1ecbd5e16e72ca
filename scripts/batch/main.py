# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/parse_folder.py."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bundle import envfile
from bundle.errors import BundleError, ParseError, ServiceError, UsageError, exit_status
from bundle.paths import ENV_FILE

if TYPE_CHECKING:
    from .progress import Display
    from .run import Work
    from .state import DocumentState

FORMATS = ("md", "json", "xlsx", "docx", "pdf")
INTERRUPTED = 130


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/parse_folder.py",
        description="Parse files, folders and patterns of PDFs and images with running parsers. Run it again to go on.",
    )
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="file, folder, or pattern like 'in/**/*.pdf'")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="each document gets a folder in here")
    parser.add_argument("--server", metavar="URL", action="append", default=[],
                        help="a parser, may be given several times (default: the one of this bundle)")
    parser.add_argument("--vlm", metavar="URL", action="append", default=[],
                        help="a VLM server's API root; a parser of its own is started here for it, and stopped at the end")
    parser.add_argument("--concurrency", metavar="N", type=int, default=2,
                        help="pages that are with each parser at a time (default 2)")
    parser.add_argument("--formats", metavar="LIST", default="md,json",
                        help=f"what to write, of {','.join(FORMATS)} (default md,json)")
    parser.add_argument("--options", metavar="JSON", default="{}",
                        help="further fields of the request, e.g. '{\"useChartRecognition\": true}'")
    parser.add_argument("--retry-failed", action="store_true", help="parse failed and incomplete pages again")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=600, help="for one page (default 600)")
    parser.add_argument("--patience", metavar="SECONDS", type=float, default=600,
                        help="how long to wait for a parser that is away (default 600)")
    options = parser.parse_args()
    if options.concurrency < 1:
        parser.error(f"--concurrency {options.concurrency}: expected at least 1")
    options.formats = chosen_formats(parser, options.formats)
    options.options = request_options(parser, options.options)
    return options


def chosen_formats(parser: argparse.ArgumentParser, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if unknown := [name for name in names if name not in FORMATS]:
        parser.error(f"--formats {text}: {unknown[0]!r} is not known; expected any of {', '.join(FORMATS)}")
    if not names:
        parser.error(f"--formats {text!r}: expected any of {', '.join(FORMATS)}")
    return names


def request_options(parser: argparse.ArgumentParser, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        parser.error(f"--options: not JSON ({error})")
    if not isinstance(value, dict):
        parser.error(f"--options {text}: expected a JSON object")
    if ours := sorted({"file", "fileType", "visualize"} & value.keys()):
        parser.error(f"--options: {ours[0]} is set by this program")
    return value


def default_server() -> str:
    values = envfile.merged(ENV_FILE)
    return f"http://127.0.0.1:{values.get('PARSER_PORT') or '8080'}"


@contextlib.contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """The folder of results belongs to one run at a time. Raises UsageError if it cannot be written or is in use."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        stream = (out / ".parse_folder.lock").open("w")
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written ({error.strerror})") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"--out {out}: another run of this program is writing there") from None
        yield


async def look_through(options: argparse.Namespace, display: Display, reader: Any) -> tuple[list[Work], list[DocumentState]]:
    """Count the pages of every document, and see what earlier runs left to do."""
    from .inputs import collect
    from .run import Work
    from .state import DocumentState, Trouble

    loop, drawing = asyncio.get_running_loop(), "pdf" in options.formats
    works, states = [], []
    for document in collect(options.inputs, options.out):
        state = DocumentState(document, options.out, options.options)
        states.append(state)
        if state.count is None:
            try:
                state.start(await loop.run_in_executor(reader.thread, reader.count, document.path))
            except ParseError as error:
                state.note(Trouble(0, str(error)))
                continue
            state.settle(0)
        missing = state.missing(drawing=drawing, retry=options.retry_failed)
        display.counts.total += state.count
        lost = sum(trouble.lost and trouble.page not in missing for trouble in state.trouble if trouble.page)
        display.counts.skipped += lost
        display.counts.earlier += state.count - len(missing) - lost
        if missing or not set(options.formats) <= set(state.written):
            if missing:
                state.reopen()
            works.append(Work(state, missing))
    return works, states


async def check_servers(parsers: list[Any], display: Display) -> None:
    """Raises ServiceError if no parser works; says which do not."""
    troubles = await asyncio.gather(*(parser.trouble() for parser in parsers))
    for trouble in filter(None, troubles):
        display.say(f"not ready: {trouble}")
    if all(troubles):
        raise ServiceError("no parser is ready; start one with scripts/run_demo.sh, or name it with --server")


async def work(options: argparse.Namespace) -> int:
    """The whole of a run."""
    from .local_parsers import LocalParsers
    from .pages import PageReader
    from .parsers import Parser
    from .progress import Counts, Display
    from .run import Run

    display, reader, parsers, states = Display(Counts()), PageReader(), [], []
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(reader.close)
        works, states = await look_through(options, display, reader)
        counts = display.counts
        display.say(f"{len(states)} documents, {counts.total} pages; {counts.left} pages to parse")
        try:
            if works:
                vlms = options.vlm if counts.left else []
                urls = [*options.server, *await LocalParsers.start(stack, vlms, options.patience, display)]
                parsers = [Parser(url, options.timeout) for url in urls or [default_server()]]
                for parser in parsers:
                    stack.push_async_callback(parser.close)
                if counts.left:
                    await check_servers(parsers, display)
                display.start()
                request = {**options.options, "visualize": "pdf" in options.formats}
                run = Run(parsers, works, options.formats, request, options.concurrency, options.patience, display, reader)
                await run.run()
        except* BundleError as group:
            raise group.exceptions[0] from None
        finally:
            display.stop()
            if states:
                display.summary(states)
                write_report(options.out, states)
    return 1 if any(state.trouble for state in states) else 0


def write_report(out: Path, states: list[DocumentState]) -> None:
    """`report.json`: every document with its pages, and what is missing or incomplete."""
    from . import files

    documents = [
        {"document": str(state.document.name), "pages": state.count,
         "written": state.written, "trouble": [dataclasses.asdict(trouble) for trouble in state.trouble]}
        for state in states
    ]  # fmt: skip
    files.write_json(out / "report.json", {"documents": documents})


async def interruptible(options: argparse.Namespace) -> int:
    """Ctrl-C and SIGTERM cancel the work; pages that are not written then are parsed by the next run."""
    task = asyncio.ensure_future(work(options))
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return INTERRUPTED


def main() -> int:
    options = parse_arguments()
    try:
        with exclusive(options.out):
            return asyncio.run(interruptible(options))
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
