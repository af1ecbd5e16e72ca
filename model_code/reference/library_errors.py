# SPDX-License-Identifier: Apache-2.0
"""What an exception of torch or transformers means for the user, with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable

from tool_errors import DeviceError, ToolError, UsageError

OUT_OF_MEMORY = (
    "out of memory on {device}: use --dtype bfloat16 or float16 instead of float32, lower --max_pixels, "
    "and look for other users of the device with {monitor}"
)
MISMATCH = (
    "{error}: the prompt must hold one <|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|> for each image; "
    'leave them out, and they are added: --prompt "OCR:"'
)
MONITOR = {"npu": "npu-smi info", "cuda": "nvidia-smi", "cpu": "free -g"}

# Message of a library's exception -> what to say instead. The first that matches counts.
TRANSLATIONS: tuple[tuple[re.Pattern[str], Callable[[str, str], ToolError]], ...] = (
    (
        re.compile("out of memory|can't allocate memory|DefaultCPUAllocator", re.IGNORECASE),
        lambda error, device: DeviceError(
            OUT_OF_MEMORY.format(device=device, monitor=MONITOR[device.partition(":")[0]])
        ),
    ),
    (
        re.compile("features and image tokens do not match"),
        lambda error, device: UsageError(MISMATCH.format(error=error)),
    ),
    (
        re.compile("aspect ratio must be smaller", re.IGNORECASE),
        lambda error, device: UsageError(f"an image is too long and thin ({error}); cut it into parts"),
    ),
)


def translate(error: Exception, device: str) -> ToolError | None:
    """What an exception of torch or transformers means for the user, or None for one that is not known."""
    if isinstance(error, MemoryError):
        return DeviceError(OUT_OF_MEMORY.format(device="cpu", monitor=MONITOR["cpu"]))
    line = (str(error).strip().splitlines() or [""])[0]
    return next((make(line, device) for pattern, make in TRANSLATIONS if pattern.search(str(error))), None)
