# SPDX-License-Identifier: Apache-2.0
"""How a block's text came about, as an answer says it: how sure the VLM was of it (decision 0224), and whose it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docparser.contract.answers import Block
    from docparser.vlm.client import Reply

DIGITS = 4
VLM, PAGE = "vlm", "page"  # whose letters a text has


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


@dataclasses.dataclass(frozen=True)
class Origin:
    """``source`` is VLM or PAGE, None of a block without text. ``agreement``, from 0 to 1: how far the VLM's text and
    the page's own are the same (``page.alignment``), None where there are not both. ``differs``: less than may be, and
    the text is the VLM's."""

    source: str | None = None
    agreement: float | None = None
    differs: bool = False

    @classmethod
    def sent(cls, block: dict[str, Any]) -> Origin | None:
        """That of a block that a client sent back; None if it has none. Raises ValueError."""
        if "source" not in block and "agreement" not in block:
            return None
        source, agreement = block.get("source"), block.get("agreement")
        if source not in (VLM, PAGE, None):
            raise ValueError(f"source: {source!r} is neither {VLM!r} nor {PAGE!r}, nor null")
        if agreement is not None and not (type(agreement) in (float, int) and 0 <= agreement <= 1):
            raise ValueError(f"agreement: {agreement!r} is no number from 0 to 1, nor null")
        return cls(source, agreement)

    def with_other(self, other: Origin) -> Origin:
        """Of a text that was joined from two: the VLM's, where one of them is."""
        sources = {self.source, other.source} - {None}
        known = [one.agreement for one in (self, other) if one.agreement is not None]
        source = VLM if VLM in sources else PAGE if PAGE in sources else None
        return Origin(source, min(known, default=None), self.differs or other.differs)


@dataclasses.dataclass(frozen=True)
class Provenance:
    """None: nothing is said of it."""

    certainty: Certainty | None = None
    origin: Origin | None = None

    @classmethod
    def sent(cls, block: dict[str, Any]) -> Provenance:
        """What a client sent back with a block. Raises ValueError."""
        return cls(Certainty.sent(block), Origin.sent(block))

    @classmethod
    def thawed(cls, frozen: dict[str, Any]) -> Provenance:
        """From the members of a frozen block."""
        certainty, origin = frozen["certainty"], frozen.get("origin")
        return cls(certainty and Certainty(**certainty), origin and Origin(**origin))

    def frozen(self) -> dict[str, Any]:
        certainty, origin = self.certainty, self.origin
        members = {"certainty": certainty and dataclasses.asdict(certainty)}
        return members | ({"origin": dataclasses.asdict(origin)} if origin else {})

    def with_other(self, other: Provenance) -> Provenance:
        """Of a text that was joined from two."""
        certainty = self.certainty and self.certainty.with_other(other.certainty or self.certainty)
        origin = self.origin and self.origin.with_other(other.origin or self.origin)
        return Provenance(certainty or other.certainty, origin or other.origin)

    @property
    def without_text(self) -> Provenance:
        """Of a block whose text went to another one."""
        return Provenance(self.certainty and Certainty(), self.origin and Origin())


def add_members(entries: Iterable[Block], provenance: Iterable[Provenance]) -> None:
    """Add the members to the entries of blocks in an answer."""
    for entry, (certainty, origin) in zip(entries, ((one.certainty, one.origin) for one in provenance), strict=True):
        if certainty is not None:
            entry["confidence"], entry["doubtful"] = certainty.confidence, certainty.doubtful
        if origin is not None:
            entry["doubtful"] = entry.get("doubtful", False) or origin.differs
            entry["source"], entry["agreement"] = origin.source, origin.agreement


def joined(blocks: Iterable[Any], provenance: list[Provenance]) -> list[Provenance]:
    """Of the blocks of all pages, after PaddleX has joined pages: it numbered them, and its blocks say which other one
    got their text (``global_group_id``). A table that got the text of others has the least of their confidences; these
    have no text left."""
    found = list(provenance)
    for block in blocks:
        own, first = block.global_block_id, block.global_group_id
        if first != own:
            found[first], found[own] = found[own].with_other(found[first]), found[own].without_text
    return found
