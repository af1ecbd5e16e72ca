# SPDX-License-Identifier: Apache-2.0
"""What campaigns have found and nobody has mended yet: each with a small input, and what is known about it.

The campaigns go past these. The list is to be empty; a test fails for an entry that does not fail any more.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Open:
    """`signature` is what the finding's begins with; `data` is an input that shows it, empty where it is long."""

    family: str
    signature: str
    data: bytes
    what: str


OPEN: tuple[Open, ...] = ()


def covers(family: str, signature: str) -> bool:
    """Whether a finding is on the list."""
    return any(one.family == family and signature.startswith(one.signature) for one in OPEN)
