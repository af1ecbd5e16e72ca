# SPDX-License-Identifier: Apache-2.0
"""Settings of the plugin, for diagnosis and unusual machines; what they are by default follows from the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class VisionSettings:
    """How the vision tower runs.

    attention: name of a backend in ``paddleocr_vl.attention.BACKENDS``; None: the device's own choice.
    patches_per_pass: patches that one pass of the tower takes at most (an image is never cut: a larger one has a
        pass of its own); None: derived from the device.
    """

    attention: str | None = None
    patches_per_pass: int | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> VisionSettings:
        """Read VLM_ATTENTION and VLM_PATCHES_PER_PASS; empty means unset.

        Raises:
            ValueError: where VLM_PATCHES_PER_PASS is no positive number. The backend's name is checked
                where backends are known.
        """
        patches = env.get("VLM_PATCHES_PER_PASS") or None
        if patches is not None and not (patches.isascii() and patches.isdigit() and int(patches) > 0):
            raise ValueError(f"VLM_PATCHES_PER_PASS is {patches!r}; expected a number of patches, 1 or more")
        return cls(env.get("VLM_ATTENTION") or None, int(patches) if patches else None)
