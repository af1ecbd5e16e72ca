# SPDX-License-Identifier: Apache-2.0
"""What the words of a command line of vLLM say; `declared_settings.vlm_args` says which options they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from declared_settings.vlm_args import means
from tool_errors import UsageError

UNITS = {"": 1, "k": 10**3, "m": 10**6, "K": 1 << 10, "M": 1 << 20}


def last_value(command: Sequence[str], argument: str) -> str | None:
    """The value of the last `argument` of a command line, as `--NAME VALUE` or `--NAME=VALUE`; None without one."""
    found = None
    for word, following in pairwise((*command, "")):
        _, equals, value = word.partition("=")
        if means(word, [argument]):
            found = value if equals else following
    return found


def whole(command: Sequence[str], argument: str, otherwise: int) -> int:
    """The value of an argument that vLLM reads as a whole number, without units. Raises UsageError."""
    text = last_value(command, argument)
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UsageError(f"{argument} is {text!r}; expected a whole number above 0 (VLM_ARGS, models.yaml)")
    return int(text)


def number(command: Sequence[str], argument: str, otherwise: float) -> float:
    """The value of an argument that is a share, or that vLLM reads with units: `16k` are 16,000, `16K` are 16,384.

    Raises UsageError.
    """
    text = last_value(command, argument)
    if text is None:
        return otherwise
    match = re.fullmatch(r"(\d*\.?\d+)([kKmM]?)", text)
    if not match or not float(match[1]):
        raise UsageError(f"{argument} is {text!r}; expected a number above 0 (VLM_ARGS, models.yaml)")
    return float(match[1]) * UNITS[match[2]]


def mapping(command: Sequence[str], argument: str) -> dict[str, Any]:
    """The JSON object of the last `argument`, or what `argument.KEY VALUE` add up to, which vLLM takes before it.

    Raises UsageError.
    """
    said: Any = {}
    added: dict[str, Any] = {}
    for word, following in pairwise((*command, "")):
        name, equals, text = word.partition("=")
        if not means(word, [argument]):
            continue
        text = text if equals else following
        try:
            said = json.loads(text)
        except ValueError:
            said = text
        _, *path = name.split(".")
        inner = added
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        if path:
            inner[path[-1]] = said
    if not isinstance(found := added or said, dict):
        raise UsageError(f"{argument} is {found!r}; expected a JSON object (VLM_ARGS, models.yaml)")
    return found


def without(command: Sequence[str], argument: str) -> list[str]:
    """The command line without an argument that takes several words, wherever it stands, and without those words."""
    kept: list[str] = []
    taking = False
    for word in command:
        taking = means(word, [argument]) or (taking and not word.startswith("-"))
        if not taking:
            kept.append(word)
    return kept


def values(command: Sequence[str], argument: str) -> list[str]:
    """What stands behind the last `argument` of a command line, of one that takes several words."""
    found: list[str] = []
    taking = False
    for word in command:
        _, equals, value = word.partition("=")
        if means(word, [argument]):
            found, taking = [value] if equals else [], True
        elif taking and not word.startswith("-"):
            found.append(word)
        else:
            taking = False
    return found


def served_names(command: Sequence[str]) -> list[str]:
    """The names of the model, which may be VLM_ARGS'."""
    return values(command, "--served-model-name")


def video_megapixels(command: Sequence[str]) -> str:
    """What `--media-io-kwargs` says that the frames of a video may have; empty where it is left to the default."""
    video = mapping(command, "--media-io-kwargs").get("video")
    found = video.get("megapixels") if isinstance(video, dict) else None
    return str(found) if isinstance(found, (int, float)) and found > 0 else ""


def keys(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The keys of which a request needs one; none where it needs none."""
    return [key for key in values(command, "--api-key") or [env.get("VLLM_API_KEY", "")] if key]
