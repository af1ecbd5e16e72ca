# SPDX-License-Identifier: Apache-2.0
"""A font that draws nothing, for text that is found and selected over a picture.

A PDF's reader needs of such text only codes, widths and what the codes mean in Unicode. So the embedded TrueType file
has two glyphs (some 400 bytes, for any script), and all codes lead to the second. This is a line without breadth: it
has no area, but it has a height, without which PDFium passes over text that is short or runs upwards. ISO 32000-1, 9.7
(composite fonts) and 9.10.3 (ToUnicode); the file's tables by the OpenType specification.
"""

from __future__ import annotations

import struct

from docparser.places.atoms import UNITS, width

NAME = "DocparserInvisible"
MOST_CODES = 0xFFFE  # of two bytes; 0 stands for a character that has none
ASCENT, DESCENT = 800, -200


class Codes:
    """Gives each character of a document a code of two bytes, in the order of their coming."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def encode(self, text: str) -> bytes:
        """Big-endian codes; 0, the replacement character, once there are no more codes."""
        return b"".join(struct.pack(">H", self._code(character)) for character in text)

    def _code(self, character: str) -> int:
        if character not in self._codes and len(self._codes) < MOST_CODES:
            self._codes[character] = len(self._codes) + 1
        return self._codes.get(character, 0)

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def widths(self) -> list[int | list[int]]:
        """The array W of the font: from code 1 on, one for each."""
        return [1, [width(character) for character in self._codes]] if self._codes else []

    @property
    def to_unicode(self) -> bytes:
        """The CMap that says what the codes mean."""
        lines = [f"<{code:04X}> <{sign.encode('utf-16-be').hex().upper()}>" for sign, code in self._codes.items()]
        lines.insert(0, "<0000> <FFFD>")
        parts = [lines[at : at + 100] for at in range(0, len(lines), 100)]  # a section has at most 100 of them
        sections = "".join(f"{len(part)} beginbfchar\n" + "\n".join(part) + "\nendbfchar\n" for part in parts)
        return (
            "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
            "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n"
            "/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n"
            f"1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n{sections}"
            "endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n"
        ).encode("ascii")


def true_type() -> bytes:
    """The font file, with the tables that PDF asks for (9.9); the widths that count stand in the PDF."""
    tables = {
        # One contour of two points: box, last point, no instructions, flags (on the curve), steps across and along.
        b"glyf": struct.pack(">5hHH2B4h", 1, 0, DESCENT, 500, ASCENT, 1, 0, 1, 1, 0, 500, DESCENT, UNITS),
        b"head": struct.pack(
            ">LLLLHHQQhhhhHHhhh",
            *(0x10000, 0x10000, 0, 0x5F0F3CF5, 0x0B, UNITS, 0, 0), *(0, DESCENT, UNITS, ASCENT), *(0, 8, 2, 0, 0),
        ),
        b"hhea": struct.pack(">LhhhHhhhhhhhhhhhH", 0x10000, ASCENT, DESCENT, 0, UNITS, *[0] * 3, 1, *[0] * 7, 1),
        b"hmtx": struct.pack(">HhH", UNITS, 0, 0),
        b"loca": struct.pack(">HHH", 0, 0, 12),
        b"maxp": struct.pack(">L14H", 0x10000, 2, 2, 1, 0, 0, 1, *[0] * 8),
    }  # fmt: skip
    directory, body = b"", b""
    for tag, table in tables.items():
        directory += struct.pack(">4sLLL", tag, _checksum(table), 12 + 16 * len(tables) + len(body), len(table))
        body += table + bytes(-len(table) % 4)
    font = struct.pack(">LHHHH", 0x10000, len(tables), 64, 2, 16 * len(tables) - 64) + directory + body
    at = font.index(tables[b"head"]) + 8
    return font[:at] + struct.pack(">L", (0xB1B0AFBA - _checksum(font)) & 0xFFFFFFFF) + font[at + 4 :]


def _checksum(table: bytes) -> int:
    padded = table + bytes(-len(table) % 4)
    return sum(struct.unpack(f">{len(padded) // 4}L", padded)) & 0xFFFFFFFF
