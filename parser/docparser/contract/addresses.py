# SPDX-License-Identifier: Apache-2.0
"""Addresses in the place of a document: what is one, and the name of its file."""

from __future__ import annotations

import re
import urllib.parse


def is_url(file: str) -> bool:
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", file) is not None


def file_name_of(file: str) -> str:
    """The last part of an address's path, as it is read (``%20`` is a blank). Empty for anything else: base64 has
    slashes too, and what follows the last one is content."""
    if not is_url(file):
        return ""
    path = file.partition("://")[2].partition("#")[0].partition("?")[0]
    return urllib.parse.unquote(path.partition("/")[2].rpartition("/")[2])
