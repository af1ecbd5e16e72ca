# SPDX-License-Identifier: Apache-2.0
"""A result in one of the formats, in memory."""

from __future__ import annotations

import io

from docparser.convert.document import ResultDocument
from docparser.convert.formats import write
from docparser.convert.names import Format, How


def convert(document: ResultDocument, format: Format, how: How | None = None) -> bytes:
    """As the service writes it where nobody asks for anything else."""
    with io.BytesIO() as buffer:
        write(document, format, buffer, how or How())
        return buffer.getvalue()
