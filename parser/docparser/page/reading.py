# SPDX-License-Identifier: Apache-2.0
"""What reads pages, and what it gives of one. There are two: the layout model with the VLM (``page.loop``), and the VLM
alone (``whole_page.reader``). Nothing behind them asks which it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from PIL import Image

from docparser.contract.answers import Note, NotedBlock
from docparser.layout.served import LayoutServer
from docparser.page.run import PageRun
from docparser.page.vlm_calls import VlmCalls

Picture = Image.Image | np.ndarray  # uint8 [height, width, 3], blue first


@dataclasses.dataclass(frozen=True)
class PageReading:
    """A page that was read. ``frozen`` is the page with its pictures as ``page.frozen`` has it, whose texts are put
    together in a child process. ``page_notes``: see ``page.notes``. ``drawn`` draws the page with what was found on it,
    by the pictures' names. ``spotted_on``: the page that spotted texts are drawn on, where PaddleX draws them.
    """

    frozen: dict[str, Any]
    block_notes: list[NotedBlock]
    page_notes: list[Note]
    drawn: Callable[[], dict[str, Picture]]
    spotted_on: np.ndarray | None = None


class PageReader(Protocol):
    """The caller of a method must have the CPU. ``layout_engine`` is openvino or paddle; empty where there is no layout
    model."""

    vlm: VlmCalls
    layout_engine: str
    layout_server: LayoutServer | None

    def warm_up(self) -> None:
        """What the first page would otherwise wait for."""

    def read(self, page: np.ndarray, options: dict[str, Any], run: PageRun) -> PageReading:
        """One page, uint8 ``[height, width, 3]``, blue first, with the keywords of ``contract.options``. Leaves the
        CPU to others while the VLM reads. Raises InvalidRequest, VlmUnavailable, PageCancelled."""
