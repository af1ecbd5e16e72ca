# SPDX-License-Identifier: Apache-2.0
"""Settings of the plugin, for diagnosis and unusual machines. The defaults depend on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import declared_settings

from .video.bounds import VideoBounds


@dataclass(frozen=True)
class VisionSettings:
    """How the vision tower runs.

    attention: a name of ``paddleocr_vl.attention.BACKENDS``; None: the device's own choice.
    patches_per_pass: patches that one pass of the tower takes at most (an image is never cut: a larger one has a
        pass of its own); None: derived from the device.
    """

    attention: str | None
    patches_per_pass: int | None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> VisionSettings:
        """Read VLM_ATTENTION and VLM_PATCHES_PER_PASS; empty means unset. Raises WrongValue. Whether a backend runs on
        the device is seen when the model is built."""
        patches = declared_settings.whole(env, "VLM_PATCHES_PER_PASS") if env.get("VLM_PATCHES_PER_PASS") else None
        return cls(declared_settings.choice(env, "VLM_ATTENTION") or None, patches)


def in_int8(env: Mapping[str, str]) -> bool:
    """Whether VLM_PRECISION asks for products of 8-bit integers. Raises WrongValue."""
    return declared_settings.choice(env, "VLM_PRECISION") == "int8"


@dataclass(frozen=True)
class RequestSettings:
    """pixels_in_flight: of decoded images that the API server holds at once, over all requests; media_hosts: from which
    images and videos are fetched for a request that gives their address. The launcher says video_pixels, which the
    frames of one video have at most, served_names, those of the loaded model, its family, and key_digests: SHA-256 in
    hex of the keys, of which a request needs one. Where nobody says them, a video has the usual pixels, vLLM alone
    checks a request's model, and asks for keys of its own."""

    pixels_in_flight: int
    video_pixels: int
    media_hosts: frozenset[str]
    served_names: tuple[str, ...]
    family: str
    key_digests: tuple[str, ...]

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> RequestSettings:
        """Read VLM_MEGAPIXELS_IN_FLIGHT and VLM_MEDIA_HOSTS, empty means unset, and the launcher's
        VLM_VIDEO_MEGAPIXELS, VLM_SERVED_NAMES, VLM_FAMILY and VLM_KEY_DIGESTS. Raises WrongValue."""
        pixels = declared_settings.whole(env, "VLM_MEGAPIXELS_IN_FLIGHT") * 1_000_000
        video = int(float(env.get("VLM_VIDEO_MEGAPIXELS") or VideoBounds.megapixels) * 1_000_000)
        hosts = declared_settings.text(env, "VLM_MEDIA_HOSTS").lower().split()
        names, digests = (
            tuple(word for word in env.get(name, "").split(",") if word)
            for name in ("VLM_SERVED_NAMES", "VLM_KEY_DIGESTS")
        )
        return cls(pixels, video, frozenset(hosts), names, env.get("VLM_FAMILY", ""), digests)
