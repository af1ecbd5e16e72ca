# SPDX-License-Identifier: Apache-2.0
"""Opening pictures and PDFs: one reader for the service, its converters and the tools. Pillow, PDFium and qpdf only."""

from pathlib import Path

CUT_SHORT = "cut_short"  # the kind of the note: the end of a file is missing, or damaged
File = str | Path | int  # a path, or a descriptor, which stays open


class Unreadable(Exception):
    """The file cannot be read. The message has no subject, which the caller names: "is damaged (...)"."""
