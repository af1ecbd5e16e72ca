# SPDX-License-Identifier: Apache-2.0
"""Text in a PDF that is found and not seen: a font that draws nothing, and the order in which a line is drawn.

A PDF's reader needs of such text only codes, widths and what the codes mean in Unicode. So the embedded TrueType file
has two glyphs (some 400 bytes, for any script), and all codes lead to the second. This is a line without breadth: it
has no area, but it has a height, without which PDFium passes over text that is short or runs upwards. ISO 32000-1, 9.7
(composite fonts) and 9.10.3 (ToUnicode); the file's tables by the OpenType specification.

A PDF says no direction. PDFium takes a line apart into segments of one direction, in the order in which an operator
draws them, and turns round those from right to left, and all of them where most are (``fx_bidi.cpp``,
``CPDF_TextPage::CloseTempLine``). So they are drawn turned round, each at its place; poppler goes by the places.
"""

from __future__ import annotations

import itertools
import re
import struct
import unicodedata

from docparser.places.atoms import UNITS, width

NAME = "DocparserInvisible"
MOST_CODES = 0xFFFE  # of two bytes; 0 stands for a character that has none
ASCENT, DESCENT = 800, -200
LEFT, RIGHT, WEAK, NUMBER, OTHER = "LRWN-"  # from left to right, to the left; signs that do not turn; numbers; the rest
KINDS = {"L": LEFT, "R": RIGHT, "AL": RIGHT} | dict.fromkeys(("EN", "AN", "NSM", "CS", "ES", "ET", "BN"), WEAK)
NUMERALS = ("EN", "AN")
MIRRORED = str.maketrans("()[]{}<>«»‹›‘’“”≤≥", ")(][}{><»«›‹’‘”“≥≤")


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


def pieces(text: str, leftwards: bool) -> list[tuple[int, str]]:
    """What is drawn one after the other: each with the step to the right before it, in thousandths of an em.
    ``leftwards``: the line belongs to text from right to left."""
    parts = [(kind, "".join(signs)) for kind, signs in itertools.groupby(text, _kind)]
    kinds = "".join(NUMBER if any(unicodedata.bidirectional(sign) in NUMERALS for sign in part) else kind
                    for kind, part in parts)  # fmt: skip
    turned = backward = kinds.count(RIGHT) > kinds.count(LEFT)
    drawn: list[str] = []
    for kind, part in parts:
        if kind in (LEFT, RIGHT):
            backward = kind == RIGHT
        turns = kind == RIGHT or (kind == OTHER and backward)
        drawn.append(part[::-1].translate(MIRRORED) if turns else part)
    starts, end = {}, 0
    for number in _from_the_left(kinds, leftwards):
        starts[number] = end
        end += _width(drawn[number])
    found: list[tuple[int, str]] = []
    end = 0
    for number in range(len(parts))[:: -1 if turned else 1]:
        step = starts[number] - end
        if step or not found:
            found.append((step, drawn[number]))
        else:
            found[-1] = found[-1][0], found[-1][1] + drawn[number]
        end += step + _width(drawn[number])
    return found


def _kind(sign: str) -> str:
    return KINDS.get(unicodedata.bidirectional(sign), OTHER)


def _width(text: str) -> int:
    return sum(map(width, text))


def _from_the_left(kinds: str, leftwards: bool) -> list[int]:
    """The segments as they are printed: words of the other direction, and numbers behind them, stand together."""
    own, other = (RIGHT, LEFT) if leftwards else (LEFT, RIGHT)
    order: list[int] = []
    for together in re.finditer(f"{other}[^{own}]*[{other}{NUMBER}]|.", kinds):
        numbers = list(range(*together.span()))
        order = [*numbers, *order] if leftwards else [*order, *reversed(numbers)]
    return order
