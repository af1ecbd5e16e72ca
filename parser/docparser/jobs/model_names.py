# SPDX-License-Identifier: Apache-2.0
"""Model names of the hosted API. A client's default is one of them; it gets the model that is served here."""

from __future__ import annotations

from docparser.errors import InvalidJob

# Names that the SDKs send for the PaddleOCR-VL pipeline (paddleocr 3.7, `_api_client/models.py`).
ALIASES = ("PaddleOCR-VL", "PaddleOCR-VL-1.5", "PaddleOCR-VL-1.6")


def check(name: str, served: str) -> None:
    """Raises InvalidJob for a pipeline that is not served here, like PP-OCRv5 or PP-StructureV3."""
    if name not in (*ALIASES, served):
        raise InvalidJob(
            f"model: {name!r} is not served here; expected one of {', '.join(dict.fromkeys((*ALIASES, served)))}. "
            "All of them mean the model that this server has loaded; the result names it."
        )
