# SPDX-License-Identifier: Apache-2.0
"""A disk that fills up while a file is written, simulated by the longest file that this process may write."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Meanwhile no file takes more than ``most`` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
