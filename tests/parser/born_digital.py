# SPDX-License-Identifier: Apache-2.0
"""A page that says its own text where the simulated layout model sees blocks."""

from __future__ import annotations

from typing import Any

from tests.support import samples
from tests.support.born_digital import pdf, text

# Where the simulated layout model sees blocks (tests/support/simulated_layout.py), by how far down the page.
TITLE, WORDS, NEXT = "A title of its own", "Words that the file says and shows, each of them", "Next"
TEXTS = {0.11: TITLE, 0.22: WORDS, 0.815: NEXT}


def born_digital(**more: Any) -> bytes:
    """A page that says and shows TEXTS; ``more``: see ``tests.support.born_digital``."""
    lines = (text(words, 60, 500 * (1 - down)) for down, words in TEXTS.items())
    return pdf(b"".join(lines), **more)


DOCUMENT = samples.encode(born_digital())
