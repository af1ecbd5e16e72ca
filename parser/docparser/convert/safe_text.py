# SPDX-License-Identifier: Apache-2.0
"""Texts and names that any file may hold, whatever a VLM or a client says.

What Windows refuses or changes in names: https://learn.microsoft.com/windows/win32/fileio/naming-a-file. Characters
without a shape of their own are left out of names too: U+202E, which turns the direction of writing, shows
``gpj.exe`` as ``exe.jpg``.
"""

from __future__ import annotations

import re
import unicodedata

# XML 1.0, 2.2: control characters but tab and line ends, halves of surrogate pairs, and two that are no characters.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
MAX_BYTES = 200  # in UTF-8, below the 255 of most file systems: a suffix, a number or a mark of a copy may follow
RESERVED_CHARACTERS = re.compile(r'[<>:"/\\|?*]')
DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)", re.IGNORECASE)
SHAPELESS = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # Unicode's categories of controls, formats, line separators...


def writable(text: str) -> str:
    """``text`` with U+FFFD in place of each of them."""
    return FORBIDDEN.sub("\ufffd", text)


def safe_name(name: str) -> str:
    """``name`` as the name of a file or folder, without folders; "" if nothing is left of it."""
    name = "".join(sign for sign in unicodedata.normalize("NFC", name) if unicodedata.category(sign) not in SHAPELESS)
    name = RESERVED_CHARACTERS.sub("_", name).strip(". ")
    if DEVICES.fullmatch(name.partition(".")[0].rstrip()):
        name = f"_{name}"
    return name.encode()[:MAX_BYTES].decode(errors="ignore").rstrip(". ")


def is_safe_path(path: str) -> bool:
    """Whether ``path``, with slashes, leads below its folder on any system, under the names that it says."""
    return len(path.encode("utf-8", "replace")) <= MAX_BYTES and all(
        part and part == safe_name(part) and re.fullmatch(r"[\w.-]+", part) for part in path.split("/")
    )
