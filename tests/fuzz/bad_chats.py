# SPDX-License-Identifier: Apache-2.0
"""Bad chat requests to a VLM server, made from a number: the same number makes the same request for the same model.

Every tenth is good. The others are wrong in a generated way, or odd and right: a server must tell them apart.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import random
from collections.abc import Callable
from typing import Any

from PIL import Image

from tests.fuzz.choices import Choices, dumped
from tests.support import damaged

# Pillow's mode -> formats that can hold it.
MODES = {
    "1": ("PNG", "TIFF", "BMP"),
    "L": ("PNG", "JPEG", "WEBP", "GIF"),
    "LA": ("PNG", "TIFF"),
    "P": ("PNG", "GIF", "BMP"),
    "RGB": ("PNG", "JPEG", "WEBP", "BMP", "TIFF"),
    "RGBA": ("PNG", "WEBP", "TIFF"),
    "CMYK": ("JPEG", "TIFF"),
    "I;16": ("PNG", "TIFF"),
    "F": ("TIFF",),
}
SIDES = (1, 2, 3, 13, 14, 27, 28, 31, 32, 33, 56, 90, 203, 401)  # pixels; the blocks of both families, and beside them
WORDS = (
    *("OCR:", "Read. ", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|im_end|>", "<|IMAGE_PLACEHOLDER|>"),
    *("<｜hy_place▁holder▁no▁102｜>", "<｜hy_User｜>", "{{ messages }}", "<|LOC_1|>", "data:image/png;base64,", "重"),
)
ROLES = ("user", "system", "assistant", "tool", "developer", "", 1, None)
# A number of tokens that a client may ask for is never large here: the time would go into answers of noise.
TOKENS: tuple[Any, ...] = (0, -1, 1, 3, 1.0, "2", True, 10**30, float("inf"), [])
FIELDS = (
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("n", "seed", "stop", "logprobs", "top_logprobs", "stream", "stream_options", "skip_special_tokens", "user"),
    *("return_token_ids", "logit_bias", "guided_regex", "structured_outputs", "response_format", "best_of", "tools"),
    *("chat_template", "add_generation_prompt", "continue_final_message", "min_tokens", "ignore_eos", "echo"),
    *("prompt_logprobs", "truncate_prompt_tokens", "bad_words", "allowed_token_ids", "model", "messages", "priority"),
)
SENSIBLE = (0, 1, 2, 0.5, -1, 8, 9, 20, 21, True, False, "a", ["a"], {"include_usage": True}, 1e-6, 2.0)
PIXELS = ("min_pixels", "max_pixels", "size", "max_pixels_bound", "video_total_pixels", "fps", "do_resize")
# Few pixels: what is tried here does not grow with them, but the time of a vision tower does.
FEW = {"mm_processor_kwargs": {"min_pixels": 3136, "max_pixels": 100_352}}
PIXEL_COUNTS = (0, 1, 783, 784, 785, 3136, 100_352, 262_144, 10**7, 10**9, 2**63, -784, 784.0, "784", None, True)


@dataclasses.dataclass(frozen=True)
class BadChat:
    """The body of one request; `good` says that it must be answered."""

    kind: str
    body: bytes
    good: bool = False


def chat(number: int, model: str) -> BadChat:
    """Request ``number`` to a server of ``model``."""
    kind = KINDS[number % len(KINDS)]
    choices = Choices(random.Random(f"chat-{number}").randbytes(1500))
    made = kind(choices, number)
    if isinstance(made, bytes):
        return BadChat(kind.__name__, made)
    return BadChat(kind.__name__, dumped({"model": model, "max_tokens": 2, "temperature": 0, **made}), kind is good)


def good(choices: Choices, number: int) -> dict[str, Any]:
    return asked(image("png", picture((60, 60), "RGB", "PNG")))


def odd_picture(choices: Choices, number: int) -> dict[str, Any]:
    """One or a few images of any size, mode and format."""
    pictures = []
    for _ in range(choices.one((1, 1, 1, 2, 4, 5))):
        mode = choices.one(tuple(MODES))
        size = choices.one(SIDES), choices.one(SIDES)
        pictures.append(image(choices.one(("png", "jpeg", "x")), picture(size, mode, choices.one(MODES[mode]))))
    return {**asked(*pictures), **FEW}


def damaged_file(choices: Choices, number: int) -> dict[str, Any]:
    """What is no image, or none any more, in place of one or as a video's frames."""
    data = damaged.file(choices.below(4000))[1]
    part = image("png", data) if choices.chance(2) else video(choices.one(("jpeg", "mp4", "png")), data)
    return {**asked(part), **FEW}


def address(choices: Choices, number: int) -> dict[str, Any]:
    """Base64 that is broken, and addresses of any kind."""
    whole = base64.b64encode(picture((40, 40), "RGB", "PNG")).decode()
    at = choices.below(len(whole))
    url = choices.one(
        (
            f"data:image/png;base64,{whole[:at]}{choices.text((), 20)}{whole[at:]}",
            f"data:image/png;base64,{whole[:at]}",
            f"data:image/png,{whole}",
            f"data:;base64,{whole}",
            f"data:image/png;base64;base64,{whole}",
            f"DATA:image/png;base64,\n{whole}\n",
            whole,
            "",
            "file:///etc/hostname",
            "http://127.0.0.1:9/a.png",
            "ftp://[::1/a",
            choices.text((*WORDS, "data:", "image/png", ";base64,", ","), 300),
        )
    )
    key = choices.one(("image_url", "image_url", "video_url"))
    return asked({"type": key, key: {"url": url}})


def seeds_part(choices: Choices, number: int) -> dict[str, Any]:
    """`{"type": "image", "image_url": ...}`, right and wrong."""
    right = image("png", picture((choices.one(SIDES), 56), "RGB", "PNG"))["image_url"]
    value = choices.one((right, right, right["url"], right["url"], None, {}, {"url": None}, choices.value(WORDS)))
    part = {"type": "image", "image_url": value, **choices.one(({}, {}, {"uuid": "a"}, {"detail": "low"}))}
    return asked(*[part] * choices.one((1, 1, 2, 9, 70)))


def many_parts(choices: Choices, number: int) -> dict[str, Any]:
    """Too many, of kinds that are not served, or of none."""
    one = picture((30, 30), "RGB", "PNG")
    data = base64.b64encode(one).decode()
    part = choices.one(
        (
            *(image("png", one), video("jpeg", one), image("png", one)),
            {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
            {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{data}"}},
            {"type": "image_embeds", "image_embeds": data},
            {"type": "image_pil", "image_pil": data},
            {"type": "file", "file": {"file_data": f"data:image/png;base64,{data}"}},
            {"type": "refusal", "refusal": "no"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
            {"type": choices.text(WORDS, 40), "image_url": {"url": data}},
            {"image_url": {"url": f"data:image/png;base64,{data}"}, "video_url": {"url": data}},
            choices.value(WORDS),
        )
    )
    return asked(*[part] * choices.one((1, 1, 1, 5, 9, 65)))


def videos(choices: Choices, number: int) -> dict[str, Any]:
    """Frames of one or several sizes, one after another; files that are none."""
    sizes = [(choices.one((28, 56, 57)), 60)] * choices.one((1, 2, 3, 7, 129))
    frames = [picture(size, choices.one(("RGB", "L", "RGBA")), "PNG") for size in sizes]
    if choices.chance(4):
        frames.append(picture((90, 20), "RGB", "PNG"))
    return asked(video(choices.one(("jpeg", "jpeg", "jpeg", "mp4", "png")), *frames), media=choices.chance(4)) | FEW


def bounds(choices: Choices, number: int) -> dict[str, Any]:
    pixels = {choices.one(PIXELS[:2] * 3 + PIXELS): choices.one(PIXEL_COUNTS) for _ in range(1 + choices.below(3))}
    options = choices.value(WORDS) if choices.chance(6) else pixels
    return {**good(choices, number), "mm_processor_kwargs": options}


def sampling(choices: Choices, number: int) -> dict[str, Any]:
    """One field or a few with values of any kind."""
    values = [choices.one(SENSIBLE) if choices.chance(2) else choices.value(WORDS) for _ in range(3)]
    found = {choices.one(FIELDS): value for value in values[: 1 + choices.below(3)]}
    tokens = {choices.one(("max_tokens", "max_completion_tokens")): choices.one(TOKENS)} if choices.chance(4) else {}
    return {**good(choices, number), **found, **tokens}


def turns(choices: Choices, number: int) -> Any:
    """Messages of any role with texts that hold words of the templates; or a body that is none."""
    if choices.chance(3):
        return dumped(choices.value(WORDS)) if choices.chance(2) else choices.take(200)
    part = image("png", picture((30, 30), "RGB", "PNG"))
    messages = []
    for _ in range(choices.below(4)):
        text = choices.text(WORDS, choices.one((30, 300, 40_000)))
        content = choices.one((text, [part, {"type": "text", "text": text}], [], None, choices.value(WORDS)))
        messages.append({"role": choices.one(ROLES[:3] * 3 + ROLES), "content": content})
    return {"messages": messages}


KINDS: tuple[Callable[[Choices, int], Any], ...] = (
    *(odd_picture, damaged_file, address, seeds_part, many_parts, videos, bounds, sampling, turns, good),
)


def asked(*parts: Any, media: bool = False) -> dict[str, Any]:
    """One user's turn; with ``media`` alone, without a text."""
    return {"messages": [{"role": "user", "content": [*parts, *([] if media else [{"type": "text", "text": "x"}])]}]}


def picture(size: tuple[int, int], mode: str, form: str) -> bytes:
    """A plain image's file; ``size`` is (width, height)."""
    buffer = io.BytesIO()
    Image.new("RGB", size, (200, 90, 9)).convert("L" if mode in ("I;16", "F") else mode).convert(mode).save(
        buffer, form
    )
    return buffer.getvalue()


def image(kind: str, data: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{base64.b64encode(data).decode()}"}}


def video(kind: str, *files: bytes) -> dict[str, Any]:
    data = ",".join(base64.b64encode(file).decode() for file in files)
    return {"type": "video_url", "video_url": {"url": f"data:video/{kind};base64,{data}"}}
