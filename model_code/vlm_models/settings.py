# SPDX-License-Identifier: Apache-2.0
"""Settings of the plugin, for diagnosis and unusual machines. The defaults depend on the device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import declared_settings
from declared_settings.services import VLM_ATTENTION, VLM_MEGAPIXELS_IN_FLIGHT

# Names in ``paddleocr_vl.attention.BACKENDS``, here for those who check settings without loading PyTorch.
ATTENTION = VLM_ATTENTION.values

HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?")

# An A0 page at 300 dpi has 139. A pixel takes 4 bytes, 8 while it is decoded: 1.6 GB.
DEFAULT_MEGAPIXELS = int(VLM_MEGAPIXELS_IN_FLIGHT.default)


@dataclass(frozen=True)
class VisionSettings:
    """How the vision tower runs.

    attention: one of ATTENTION; None: the device's own choice.
    patches_per_pass: patches that one pass of the tower takes at most (an image is never cut: a larger one has a
        pass of its own); None: derived from the device.
    """

    attention: str | None = None
    patches_per_pass: int | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> VisionSettings:
        """Read VLM_ATTENTION and VLM_PATCHES_PER_PASS; empty means unset.

        Raises:
            ValueError: naming the variable, its value and what was expected. Whether a backend runs on the device is
                seen when the model is built.
        """
        attention = env.get("VLM_ATTENTION") or None
        if attention is not None and attention not in ATTENTION:
            raise ValueError(f"VLM_ATTENTION is {attention!r}; expected one of {', '.join(ATTENTION)}, or nothing")
        patches = env.get("VLM_PATCHES_PER_PASS") or None
        if patches is not None and not (patches.isascii() and patches.isdigit() and int(patches) > 0):
            raise ValueError(f"VLM_PATCHES_PER_PASS is {patches!r}; expected a number of patches, 1 or more")
        return cls(attention, int(patches) if patches else None)


def in_int8(env: Mapping[str, str]) -> bool:
    """Whether VLM_PRECISION asks for products of 8-bit integers. Raises WrongValue."""
    return declared_settings.choice(env, "VLM_PRECISION") == "int8"


@dataclass(frozen=True)
class RequestSettings:
    """pixels_in_flight: of decoded images that the API server holds at once, over all requests; media_hosts: from which
    images and videos are fetched for a request that gives their address. The launcher says served_names, those of the
    loaded model, its family, and key_digests: SHA-256 in hex of the keys, of which a request needs one. Where nobody
    says them, vLLM alone checks a request's model, and asks for keys of its own."""

    pixels_in_flight: int = DEFAULT_MEGAPIXELS * 1_000_000
    media_hosts: frozenset[str] = frozenset()
    served_names: tuple[str, ...] = ()
    family: str = ""
    key_digests: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> RequestSettings:
        """Read VLM_MEGAPIXELS_IN_FLIGHT and VLM_MEDIA_HOSTS, empty means unset, and the launcher's VLM_SERVED_NAMES,
        VLM_FAMILY and VLM_KEY_DIGESTS. Raises ValueError naming the variable, its value and what was expected."""
        millions = env.get("VLM_MEGAPIXELS_IN_FLIGHT") or str(DEFAULT_MEGAPIXELS)
        if not (millions.isascii() and millions.isdigit() and 0 < len(millions) < 7 and int(millions) > 0):
            raise ValueError(f"VLM_MEGAPIXELS_IN_FLIGHT is {millions!r}; expected millions of pixels, from 1 to 999999")
        hosts = (env.get("VLM_MEDIA_HOSTS") or "").split()
        for host in hosts:
            if not HOST.fullmatch(host):
                raise ValueError(
                    f"VLM_MEDIA_HOSTS: {host!r} is no host; expected names or addresses with blanks between them, with "
                    "a port where it is not the usual one, like images.example.org 10.0.0.7:8080"
                )
        names, digests = (
            tuple(word for word in env.get(name, "").split(",") if word)
            for name in ("VLM_SERVED_NAMES", "VLM_KEY_DIGESTS")
        )
        lower = frozenset(host.lower() for host in hosts)
        return cls(int(millions) * 1_000_000, lower, names, env.get("VLM_FAMILY", ""), digests)
