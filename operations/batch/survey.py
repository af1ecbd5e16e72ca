# SPDX-License-Identifier: Apache-2.0
"""The first look at all documents: how many pages they have, and which are still to be parsed."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from bundle.errors import ParseError

from .inputs import Document
from .pages import PageCutter
from .progress import Display
from .run import Work
from .state import DocumentState, Trouble


async def survey(
    options: argparse.Namespace, documents: Sequence[Document], display: Display, reader: PageCutter
) -> tuple[list[Work], list[DocumentState]]:
    """Count the pages of every document and find out what earlier runs left to do.

    Returns the documents with something to do, and the states of all. The display's counts are filled in.
    """
    loop, drawing = asyncio.get_running_loop(), "layout" in options.formats
    works, states = [], []
    for document in documents:
        state = DocumentState(document, options.out, options.options)
        states.append(state)
        count = state.count
        if count is None:
            try:
                count = await loop.run_in_executor(reader.thread, reader.count, document.path)
                state.start(count)
                state.tell(1, await loop.run_in_executor(reader.thread, reader.notes, document.path))
            except ParseError as error:
                state.note(Trouble(0, str(error)))
                continue
            state.clear(0)
        missing = state.missing(drawing=drawing, retry=options.retry_failed)
        display.counts.total += count
        lost = sum(trouble.lost and trouble.page not in missing for trouble in state.trouble if trouble.page)
        display.counts.skipped += lost
        display.counts.earlier += count - len(missing) - lost
        if missing or not set(options.formats) <= set(state.written):
            if missing:
                state.mark_written([])
            works.append(Work(state, missing))
    return works, states
