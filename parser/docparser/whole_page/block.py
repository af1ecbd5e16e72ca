# SPDX-License-Identifier: Apache-2.0
"""A piece of a page that the VLM read whole."""

from __future__ import annotations

import dataclasses
from typing import Any

Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels of the page


@dataclasses.dataclass(frozen=True)
class Block:
    """``label`` is one of the layout classes. ``box`` is that of the page where the answer does not say it.
    ``title_level``: 1 for what Markdown calls ``##``, of paragraph titles."""

    label: str
    content: str
    box: Box
    title_level: int | None = None

    def frozen(self) -> dict[str, Any]:
        """As ``page/frozen`` has blocks."""
        fields = {"label": self.label, "bbox": list(self.box), "content": self.content, "title_level": self.title_level}
        return {**fields, "group_id": None, "polygon_points": None, "image": None}
