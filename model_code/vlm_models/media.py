# SPDX-License-Identifier: Apache-2.0
"""How requests may carry images and videos: inside the request, as base64 data URLs, and no other way.

vLLM's own connector fetches http(s) URLs on the server's behalf and lets damaged files surface as status 500. This one
opens no connection and no file; addresses of allowed hosts have been fetched before (``remote``).
"""

from __future__ import annotations

import asyncio
import binascii
import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pybase64
from PIL import Image

from .images import decode_image
from .pixels import ROOM, Room
from .video.bounds import VideoBounds
from .video.decode import Video, decode_frames, decode_video

CONNECTOR = "data_url"
_MAX_SHOWN = 60


class DataUrlConnector:
    """Media connector of vLLM's ``MEDIA_CONNECTOR_REGISTRY`` that takes base64 data URLs only."""

    # PIL decodes outside the interpreter lock; the event loop must not wait for it.
    _pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="decode-image")

    # Each video has a process of its own while it is decoded.
    _video_pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="decode-video")

    def __init__(self, media_io_kwargs: dict[str, Any] | None = None, **_: Any) -> None:
        """Domains and local paths that vLLM passes are not looked at: neither is ever opened. Videos are accepted where
        ``media_io_kwargs`` bounds them."""
        video = (media_io_kwargs or {}).get("video")
        self.video_bounds = None if video is None else VideoBounds.from_options(video)

    def fetch_image(self, image_url: str, *, image_mode: str = "RGB") -> Image.Image:
        """RGB image of a data URL. Raises ValueError naming what is wrong with it."""
        return decode_image(decode_data_url(image_url))

    async def fetch_image_async(self, image_url: str, *, image_mode: str = "RGB") -> Image.Image:
        image = await asyncio.get_running_loop().run_in_executor(self._pool, self.fetch_image, image_url)
        if room := ROOM.get():
            room.give_back_with(image, image.width * image.height)
        return image

    # Newer versions of vLLM say more (0.23.0: `video_processor`), of which nothing is needed here.
    def fetch_video(self, video_url: str, room: Room | None = None, **_: Any) -> Video:
        """Frames and metadata of a data URL: of a video file, within its request's ``room``, or of `video/jpeg` with
        frames between commas.

        Raises ValueError naming what is wrong with it.
        """
        if self.video_bounds is None:
            raise ValueError("video_url: this model reads no video; send images as image_url parts")
        if is_frames(video_url):
            return decode_frames(decode_frames_url(video_url), self.video_bounds)
        bounds = self.video_bounds
        if room:
            bounds = dataclasses.replace(bounds, megapixels=min(bounds.megapixels, room.of_a_video / 1_000_000))
        return decode_video(decode_data_url(video_url, "video_url"), bounds)

    async def fetch_video_async(self, video_url: str, **_: Any) -> Video:
        room = ROOM.get()
        fetch = partial(self.fetch_video, video_url, room)
        clip, facts = await asyncio.get_running_loop().run_in_executor(self._video_pool, fetch)
        if room:
            pixels = clip.size // 3
            if not is_frames(video_url):
                room.give_back(room.of_a_video - pixels)
            room.give_back_with(clip, pixels)
        return clip, facts

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise ValueError("only images and videos are accepted; this server reads neither audio nor embeddings")

    async def _refuse_async(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    fetch_audio = fetch_image_embedding = _refuse
    fetch_audio_async = _refuse_async


def decode_data_url(url: str, key: str = "image_url") -> bytes:
    """Bytes of ``data:<type>;base64,<data>``. Raises ValueError that begins with ``key`` for others and bad base64."""
    return decode_base64(data_of(url, key), key)


def is_frames(url: str) -> bool:
    """Whether a `video_url` holds JPEG frames instead of a video file."""
    return url[:16].lower() == "data:video/jpeg;"


def decode_frames_url(url: str) -> list[bytes]:
    """The files of ``data:video/jpeg;base64,<frame>,<frame>,...``. Raises ValueError."""
    return [decode_base64(frame, "video_url") for frame in data_of(url, "video_url").split(",")]


def data_of(url: str, key: str) -> str:
    """What follows the head of a data URL. Raises ValueError for other URLs."""
    example = "data:image/png;base64,..." if key == "image_url" else "data:video/mp4;base64,..."
    if not url.startswith("data:"):
        raise ValueError(
            f"{key}: {url[:_MAX_SHOWN]!r} is not accepted, this server opens no URLs or files (VLM_MEDIA_HOSTS names "
            f"no such host); send it inside the request as {example}"
        )
    header, comma, body = url.partition(",")
    if not comma or not header.endswith(";base64"):
        raise ValueError(f"{key}: {url[:_MAX_SHOWN]!r} is not of the form {example}")
    return body


def decode_base64(text: str, key: str) -> bytes:
    try:
        return pybase64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{key}: the base64 data cannot be decoded: {error}") from error


def register_media_connector() -> None:
    """Make :class:`DataUrlConnector` the server's connector, unless VLLM_MEDIA_CONNECTOR names another."""
    from .vllm_names import MEDIA_CONNECTOR_REGISTRY

    MEDIA_CONNECTOR_REGISTRY.register(CONNECTOR)(DataUrlConnector)
    os.environ.setdefault("VLLM_MEDIA_CONNECTOR", CONNECTOR)
