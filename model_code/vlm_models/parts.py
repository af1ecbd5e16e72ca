# SPDX-License-Identifier: Apache-2.0
"""The parts of a chat request's messages: texts, images, videos."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MEDIA = ("image_url", "video_url")  # kinds of parts whose URL is no text of the prompt
# What vLLM reads of a part of each type, and the type that says so in OpenAI's words.
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
    """Write messages as vLLM takes them: texts among the parts, which the chat templates pass over, parts of other
    types than OpenAI's, bare addresses, and nulls. Returns whether there was one."""
    messages = without_nulls(document.get("messages"))
    for message in messages or ():
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, str):
                content[place] = {"type": "text", "text": part}
            elif (read := what_is_read(part)) in part:
                part["type"] = read
                if read in MEDIA and isinstance(part[read], str):
                    part[read] = {"url": part[read]}
    changed = messages != document.get("messages")
    if changed:
        document["messages"] = messages
    return changed


def without_nulls(value: Any) -> Any:
    """The same without what stands for keys that are left out."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def what_is_read(part: Mapping[str, Any]) -> str | None:
    """What vLLM reads of a part: of one without a type the image, else the video."""
    kind = part.get("type")
    return next((key for key in MEDIA if key in part), None) if kind is None else READ.get(kind)


def empty_media(document: Mapping[str, Any]) -> Iterator[str]:
    """Where image and video parts stand that hold nothing: vLLM would look for them in a cache of inputs by their
    `uuid`, and answer 500."""
    for where, part in parts(document):
        keys = [key for key in MEDIA if key in part or part.get("type") == key]
        if keys and part.get("type") != "text" and all(url_of(part, key) is None for key in MEDIA):
            yield f"{where}.{keys[0]}"


def unread(document: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Where parts have a text, an image or a video that vLLM passes over, and the part's type, by which it goes."""
    for where, part in parts(document):
        read = what_is_read(part)
        for key in ("text", *MEDIA):
            if key != read and part.get(key) is not None:
                yield f"{where}.{key}", part.get("type")
