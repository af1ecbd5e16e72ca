# SPDX-License-Identifier: Apache-2.0
"""scripts/parse_folder.py: survey the documents, reach the parsers, send the pages, write the outputs, say what failed.

The heavy imports stand in the functions, so that --help works in any Python.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tool_errors import INTERRUPTED, RESUMABLE, ServiceError, UsageError, run

from . import arguments

if TYPE_CHECKING:
    from .parsers import Parser
    from .progress import Display


async def parse_folder(options: argparse.Namespace) -> int:
    """The whole procedure; returns the exit status: 0 if every page is complete, 1 if one is not.

    Raises ToolError.
    """
    from bundle import parser_client
    from bundle.paths import VALUES
    from bundle.progress import plural

    from . import local_parsers, outputs
    from .inputs import collect
    from .pages import PageCutter
    from .parsers import Parser
    from .progress import Counts, Display
    from .run import Run, survey

    display, reader = Display(Counts()), PageCutter()
    documents, left_out = collect(options.inputs, options.out)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(reader.close)
        works, states = await survey(options, documents, display, reader)
        counts = display.counts
        display.say(
            f"{plural(len(states), 'document')}, {plural(counts.total, 'page')}; {plural(counts.left, 'page')} to parse"
        )
        try:
            if works:
                vlms = options.vlm if counts.left else []
                urls = [*options.server, *await local_parsers.start(stack, vlms, options.patience, display)]
                parsers = [Parser(url, options.timeout) for url in urls or [parser_client.address(VALUES)]]
                for parser in parsers:
                    stack.push_async_callback(parser.close)
                if counts.left:
                    await check_parsers(parsers, display)
                display.start()
                request = {**options.options, "visualize": "layout" in options.formats}
                run = Run(
                    parsers, works, options.formats, request, options.concurrency, options.patience, display, reader
                )
                await run.run()
        except BaseExceptionGroup as group:  # of `except*`, Python 3.11.2 makes a group again
            raise group.exceptions[0] from None
        finally:
            # An error that is on its way comes first: the disk may be full, or the terminal closed.
            telling = contextlib.suppress(OSError) if sys.exc_info()[0] else contextlib.nullcontext()
            with telling:
                display.stop()
                display.summary(states, left_out)
            with telling:
                outputs.write_report(options.out, states, left_out)
    return 1 if any(state.trouble for state in states) else 0


async def check_parsers(parsers: list[Parser], display: Display) -> None:
    """Say which parsers are not ready. Raises ServiceError if none is."""
    troubles = await asyncio.gather(*(parser.trouble() for parser in parsers))
    for trouble in filter(None, troubles):
        display.say(f"not ready: {trouble}")
    if all(troubles):
        raise ServiceError("no parser is ready; start one with scripts/run_demo.sh, or name it with --server")


@contextlib.contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Lock the folder of results for this run. Raises UsageError if it cannot be written or is in use."""
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


async def interruptible(options: argparse.Namespace) -> int:
    """Cancel the work at Ctrl-C, SIGTERM, or when the terminal closes. The next run parses the unwritten pages."""
    task = asyncio.ensure_future(parse_folder(options))
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:  # nohup
            loop.add_signal_handler(signum, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        print(RESUMABLE, file=sys.stderr)
        return INTERRUPTED


def parse_alone(options: argparse.Namespace) -> int:
    """The procedure in a folder of results that no other run writes to. Raises ToolError."""
    try:
        with exclusive(options.out):
            return asyncio.run(interruptible(options))
    except BrokenPipeError:
        raise
    except OSError as error:
        place = error.filename or f"--out {options.out}"
        raise UsageError(f"{place}: {error.strerror or error}; run the same command again to go on") from error


def main() -> int:
    """Run the procedure and return the exit status; an error becomes one line on stderr."""
    options = arguments.parse()
    return run(lambda: parse_alone(options), RESUMABLE)


if __name__ == "__main__":
    sys.exit(main())
