# SPDX-License-Identifier: Apache-2.0
"""The text of one page, in parts as they come."""

from __future__ import annotations

from docparser.convert.characters import writable
from docparser.errors import InternalError


class PageText:
    """Its parts, joined, are the text of the whole page, as ``convert.formats`` writes it: without what is white at
    either end."""

    def __init__(self) -> None:
        self.given = ""  # all that was returned so far
        self._seen = 0  # characters of the page's Markdown
        self._white = ""  # at the end of what was seen: not to be given unless something follows

    def part(self, offset: int, text: str) -> str:
        """What may be shown of a part of the Markdown that begins at ``offset``, in characters. Of a page that was
        begun again, what was seen is passed over; ``rest`` tells whether it was the same."""
        if offset != self._seen:
            return ""
        self._seen += len(text)
        text = self._white + writable(text)
        text = text if self.given else text.lstrip()
        shown = text.rstrip()
        self._white = text[len(shown) :]
        self.given += shown
        return shown

    def rest(self, whole: str) -> str:
        """What is still to be shown of the page's whole text. Raises InternalError if it does not begin with what was
        given: the VLM may read a page that is begun again in another way."""
        if not whole.startswith(self.given):
            raise InternalError("A page was read twice, and the two differ; send the document again.")
        rest = whole[len(self.given) :]
        self.given = whole
        return rest
