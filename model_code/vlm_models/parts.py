# SPDX-License-Identifier: Apache-2.0
"""The parts of a chat request's messages: texts, images, videos."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MEDIA = ("image_url", "video_url")  # kinds of parts whose URL is no text of the prompt
# What vLLM reads of a part of each type.
READ = {
    **{"text": "text", "input_text": "text"},
    **{"image_url": "image_url", "input_image": "image_url", "image": "image_url", "video_url": "video_url"},
}


def parts(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each part of a checked request's messages stands, and the part itself, unless it is a plain text."""
    for number, message in enumerate(document.get("messages") or ()):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict):
                yield f"messages[{number}].content[{place}]", part


def media_urls(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Of each image and video of a checked request: where it stands, image_url or video_url, and its URL."""
    for where, part in parts(document):
        for key in MEDIA:
            url = url_of(part, key)
            if url is not None:
                yield f"{where}.{key}", key, url


def url_of(part: Mapping[str, Any], key: str) -> str | None:
    """The address of a part, as an object or bare; None where it has none."""
    url = part.get(key)
    return url.get("url") if isinstance(url, dict) else url


def in_openais_words(document: dict[str, Any]) -> bool:
    """Write texts among the parts, which the chat templates pass over, and `{"type": "image", "image_url": ...}`, as
    some clients do, in OpenAI's words. Returns whether there was one."""
    changed = False
    for message in document.get("messages") or ():
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, str):
                content[place] = {"type": "text", "text": part}
            elif part.get("type") == "image" and part.get("image_url") is not None:
                image = part["image_url"]
                # vLLM takes a bare address only where nothing says the part's type.
                part |= {"type": "image_url", "image_url": {"url": image} if isinstance(image, str) else image}
            else:
                continue
            changed = True
    return changed


def empty_media(document: Mapping[str, Any]) -> Iterator[str]:
    """Where image and video parts stand that hold nothing: vLLM would look for them in a cache of inputs by their
    `uuid`, and answer 500."""
    for where, part in parts(document):
        keys = [key for key in MEDIA if key in part or part.get("type") == key]
        if keys and part.get("type") != "text" and all(url_of(part, key) is None for key in MEDIA):
            yield f"{where}.{keys[0]}"


def unread(document: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Where parts have a text, an image or a video that vLLM passes over, and the part's type, by which it goes. Of a
    part without one it reads the image, else the video."""
    for where, part in parts(document):
        kind = part.get("type")
        read = next((key for key in MEDIA if key in part), None) if kind is None else READ.get(kind)
        for key in ("text", *MEDIA):
            if key != read and part.get(key) is not None:
                yield f"{where}.{key}", kind
