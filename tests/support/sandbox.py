# SPDX-License-Identifier: Apache-2.0
"""Local mode with simulated services; tests/bundle/conftest.py makes it."""

from __future__ import annotations

from tests.support.local_mode import LocalMode

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415478da63f8ffff3f0005fe02fe0def46b80000000049454e44ae426082"
)


class Sandbox(LocalMode):
    """Scratch folders in which the `vlm` and `parser` environments are simulated: they answer at once."""

    def write(self, name: str, data: bytes = PNG) -> str:
        """Write an input file; returns its path."""
        path = self.folder / name
        path.write_bytes(data)
        return str(path)
