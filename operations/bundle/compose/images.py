# SPDX-License-Identifier: Apache-2.0
"""Names of our images, as compose.yaml and config/compose have them: the bundle's version first, then the stack, which
says what else it was built with (CANN, torch: labels of the image)."""

from __future__ import annotations

from collections.abc import Mapping

import declared_settings
from bundle_version import VERSION

PARSER = f"paddleocr-vl/parser:{VERSION}"


def hardware(values: Mapping[str, str]) -> str:
    """HARDWARE as compose reads it: whose images are built, and so saved. The machine that builds need not have it."""
    return declared_settings.text(values, "HARDWARE")


def vlm(key: str, stack: str) -> str:
    """The VLM server's image: `key` is a product of common/atlas.py or `cpu`, `stack` a file of config/stacks."""
    return f"paddleocr-vl/vlm-{key}:{VERSION}-vllm{stack}"
