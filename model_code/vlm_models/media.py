# SPDX-License-Identifier: Apache-2.0
"""How requests may carry images: inside the request, as base64 data URLs, and no other way.

vLLM's own connector fetches http(s) URLs on the server's behalf and lets damaged files surface as
status 500. The parser only sends data URLs, so this one opens no connection and no file.
"""

from __future__ import annotations

import asyncio
import binascii
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pybase64
from PIL import Image

from .images import decode_image
from .pixels import ROOM

CONNECTOR = "data_url"
_MAX_SHOWN = 60


class DataUrlConnector:
    """Media connector of vLLM's ``MEDIA_CONNECTOR_REGISTRY`` that takes base64 data URLs only."""

    # PIL decodes outside the interpreter lock; the event loop must not wait for it.
    _pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="decode-image")

    def __init__(self, media_io_kwargs: dict[str, Any] | None = None, **_: Any) -> None:
        """Domains and local paths that vLLM passes are not looked at: neither is ever opened."""

    def fetch_image(self, image_url: str, *, image_mode: str = "RGB") -> Image.Image:
        """RGB image of a data URL. Raises ValueError naming what is wrong with it."""
        return decode_image(decode_data_url(image_url))

    async def fetch_image_async(self, image_url: str, *, image_mode: str = "RGB") -> Image.Image:
        image = await asyncio.get_running_loop().run_in_executor(self._pool, self.fetch_image, image_url)
        if room := ROOM.get():
            room.give_back_with(image, image.width * image.height)
        return image

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise ValueError("only images are accepted; this model reads neither audio, video nor embeddings")

    async def _refuse_async(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    fetch_audio = fetch_video = fetch_image_embedding = _refuse
    fetch_audio_async = fetch_video_async = _refuse_async


def decode_data_url(url: str) -> bytes:
    """Bytes of ``data:<type>;base64,<data>``. Raises ValueError for other URLs and bad base64."""
    if not url.startswith("data:"):
        raise ValueError(
            f"image_url: {url[:_MAX_SHOWN]!r} is not accepted, this server opens no URLs or files; "
            "send the image itself as data:image/png;base64,..."
        )
    header, comma, body = url.partition(",")
    if not comma or not header.endswith(";base64"):
        raise ValueError(f"image_url: {url[:_MAX_SHOWN]!r} is not of the form data:image/png;base64,...")
    try:
        return pybase64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"image_url: the base64 data cannot be decoded: {error}") from error


def register_media_connector() -> None:
    """Make :class:`DataUrlConnector` the server's connector, unless VLLM_MEDIA_CONNECTOR names another."""
    from vllm.multimodal.utils import MEDIA_CONNECTOR_REGISTRY

    MEDIA_CONNECTOR_REGISTRY.register(CONNECTOR)(DataUrlConnector)
    os.environ.setdefault("VLLM_MEDIA_CONNECTOR", CONNECTOR)
