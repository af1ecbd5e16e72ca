# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on the way, said so that an operator can mend it, and the exit status of each kind."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable


class ToolError(Exception):
    """Base of what the user is told in one line; the message says what to do."""


class UsageError(ToolError):
    """An argument or an input that cannot be worked with."""


class EnvironmentMissing(ToolError):
    """A package or library is missing, or two do not fit together."""


class DeviceError(ToolError):
    """The device is not there, too small, or failed; or the server is away."""


EXIT_STATUS: dict[type[ToolError], int] = {UsageError: 2, EnvironmentMissing: 3, DeviceError: 4}
FAILED = 1  # everything ran, and the verdict is no
INTERRUPTED = 130

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
        lambda error, device: DeviceError(OUT_OF_MEMORY.format(device=device, monitor=MONITOR[device.partition(":")[0]])),
    ),
    (re.compile("features and image tokens do not match"), lambda error, device: UsageError(MISMATCH.format(error=error))),
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


def run(main: Callable[[], int]) -> int:
    """Call a tool's main; returns its exit status, and prints one line instead of a traceback for a ToolError."""
    try:
        return main()
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return next((EXIT_STATUS[kind] for kind in type(error).__mro__ if kind in EXIT_STATUS), 1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
