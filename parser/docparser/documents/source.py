# SPDX-License-Identifier: Apache-2.0
"""Decoding the request's ``file``, and telling a document's format from its first bytes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import BinaryIO

from docparser.errors import InvalidDocument, InvalidRequest
from file_types import SUPPORTED, format_of

FILE_TYPES = {0: "PDF", 1: "image"}


def is_url(file: str) -> bool:
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", file) is not None


def decode(file: str) -> bytes:
    """The bytes of the request's ``file``; blanks and a ``data:...;base64,`` prefix are accepted.

    Raises InvalidRequest for what is not base64, and for an empty document.
    """
    if file.startswith("data:"):
        head, comma, file = file.partition(",")
        if not comma or not head.endswith(";base64"):
            raise InvalidRequest("file: a data URL must be of the form data:<type>;base64,<content>")
    try:
        data = base64.b64decode("".join(file.split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidRequest(f"file: not base64 ({exc}); send the document's bytes in base64") from None
    if not data:
        raise InvalidRequest(f"file: the document is empty; expected {SUPPORTED} in base64")
    return data


def decode_into(file: BinaryIO, pieces: Iterable[bytes]) -> None:
    """``decode`` for base64 that comes in pieces, the first of which holds the whole prefix. Raises InvalidRequest."""
    rest, padded, begun = b"", False, False
    try:
        for piece in pieces:
            if not begun and piece.startswith(b"data:"):
                head, comma, piece = piece.partition(b",")
                if not comma or not head.endswith(b";base64"):
                    raise InvalidRequest("file: a data URL must be of the form data:<type>;base64,<content>")
            begun = True
            text = rest + b"".join(piece.split())
            whole = len(text) // 4 * 4
            text, rest = text[:whole], text[whole:]
            if padded and (text or rest):
                raise ValueError("excess data after padding")
            padded = text.endswith(b"=")
            file.write(base64.b64decode(text, validate=True))
        base64.b64decode(rest, validate=True)
    except ValueError as exc:
        raise InvalidRequest(f"file: not base64 ({exc}); send the document's bytes in base64") from None
    if not file.tell():
        raise InvalidRequest(f"file: the document is empty; expected {SUPPORTED} in base64")


def check_type(data: bytes, file_type: int | None) -> str:
    """The format of the document that begins with ``data``: ``PDF`` or Pillow's name of an image format.

    Raises InvalidDocument if the format is not supported, or is not what ``fileType`` says.
    """
    found = format_of(data)
    if found is None:
        said = "" if file_type is None else f", although fileType is {file_type} ({FILE_TYPES[file_type]})"
        raise InvalidDocument(f"file: neither an image nor a PDF that this service reads{said}; expected {SUPPORTED}")
    if file_type is not None and (found == "PDF") != (file_type == 0):
        right = 0 if found == "PDF" else 1
        raise InvalidDocument(
            f"fileType: {file_type} ({FILE_TYPES[file_type]}) was given, but file is a {found}; "
            f"send fileType {right} or leave it out"
        )
    return found
