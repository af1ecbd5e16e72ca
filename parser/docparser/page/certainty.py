# SPDX-License-Identifier: Apache-2.0
"""What an answer says of how sure the VLM was of a block (decision 0224)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docparser.vlm.client import Reply

DIGITS = 4


@dataclasses.dataclass(frozen=True)
class Certainty:
    """``confidence`` is None for a block that has no text of its own, and where the VLM gave none."""

    confidence: float | None = None
    doubtful: bool = False

    @classmethod
    def of(cls, reply: Reply, doubtful_below: float) -> Certainty:
        """A text that was cut is doubtful however sure the VLM was. One that repeats itself is always sure of it, so
        its confidence says nothing."""
        if reply.note is not None and not reply.note.has_text:
            return cls()
        confidence = None if reply.confidence is None else round(reply.confidence, DIGITS)
        return cls(confidence, reply.note is not None or (confidence is not None and confidence < doubtful_below))

    @classmethod
    def sent(cls, block: dict[str, Any]) -> Certainty | None:
        """That of a block that a client sent back; None if it has none. Raises ValueError."""
        if "confidence" not in block and "doubtful" not in block:
            return None
        confidence, doubtful = block.get("confidence"), block.get("doubtful", False)
        if confidence is not None and not (type(confidence) in (float, int) and 0 <= confidence <= 1):
            raise ValueError(f"confidence: {confidence!r} is no number from 0 to 1, nor null")
        if type(doubtful) is not bool:
            raise ValueError(f"doubtful: {doubtful!r} is neither true nor false")
        return cls(confidence, doubtful)

    def with_other(self, other: Certainty) -> Certainty:
        """Of a text that was joined from two."""
        known = [one.confidence for one in (self, other) if one.confidence is not None]
        return Certainty(min(known, default=None), self.doubtful or other.doubtful)
