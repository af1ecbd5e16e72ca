# SPDX-License-Identifier: Apache-2.0
"""Names of our images, as compose.yaml and config/compose have them: the bundle's version first, then what it was built
for."""

from __future__ import annotations

from collections.abc import Mapping

from bundle_version import VERSION

PARSER = f"paddleocr-vl/parser:{VERSION}"
# Every stack is built for this CANN (config/stacks).
CANN = "8.3"


def hardware(values: Mapping[str, str]) -> str:
    """HARDWARE as compose reads it: whose images are built, and so saved. The machine that builds need not have it."""
    return values.get("HARDWARE") or "ascend"


def vlm(key: str, stack: str) -> str:
    """The VLM server's image: `key` is a product of common/atlas.py or `cpu`, `stack` a file of config/stacks."""
    cann = "" if key == "cpu" else f"-cann{CANN}"
    return f"paddleocr-vl/vlm-{key}:{VERSION}{cann}-vllm{stack}"
