# SPDX-License-Identifier: Apache-2.0
"""Characters that no file may hold: a VLM, or a client, can say them, and XML and UTF-8 cannot."""

from __future__ import annotations

import re

# XML 1.0, 2.2: control characters but tab and line ends, halves of surrogate pairs, and two that are no characters.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def writable(text: str) -> str:
    """``text`` with U+FFFD in place of each of them."""
    return FORBIDDEN.sub("\ufffd", text)
