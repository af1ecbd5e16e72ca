# SPDX-License-Identifier: Apache-2.0
"""What reads pages, and what it gives of one. There are two: the layout model with the VLM (``pipeline``), and the VLM
alone (``whole_pages``). Nothing behind them asks which it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from PIL import Image

from docparser.layout.served import LayoutServer
from tests.support.old_page.block_client import BlockClient, PageCalls

Picture = Image.Image | np.ndarray  # uint8 [height, width, 3], blue first


@dataclasses.dataclass(frozen=True)
class PageReading:
    """A page that was read. ``frozen`` is the page with its pictures as ``frozen_page`` has it, whose texts are put
    together in a child process. ``notes``: ``{block_id, kind, message}``. ``drawn`` draws the page with what was found
    on it, by the pictures' names. ``spotted_on``: the page that spotted texts are drawn on, where PaddleX draws them.
    """

    frozen: dict[str, Any]
    notes: list[dict]
    drawn: Callable[[], dict[str, Picture]]
    spotted_on: np.ndarray | None = None


class PageReader(Protocol):
    """The caller of a method must hold the worker's baton. ``layout_engine`` is openvino or paddle; empty where there
    is no layout model."""

    client: BlockClient
    layout_engine: str
    layout_server: LayoutServer | None

    def warm_up(self) -> None:
        """What the first page would otherwise wait for."""

    def read(self, image: np.ndarray, predict: dict[str, Any], calls: PageCalls) -> PageReading:
        """One page, uint8 ``[height, width, 3]``, blue first, with the keywords of ``contract.options``. Gives the
        baton away while the VLM reads. Raises InvalidRequest, VlmUnavailable, Cancelled."""
