# SPDX-License-Identifier: Apache-2.0
"""The characters of a page, as PDFium reads them. Runs in the renderer, whose time and memory are bounded."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pypdfium2
from pypdfium2 import raw as pdfium

from docparser.own_text.characters import (
    AFTER_BLANK,
    CHARACTER,
    FURTHEST,
    MOST_CHARACTERS,
    MOST_STYLES,
    PIECE,
    STYLE,
    UNMAPPED,
    Characters,
)

LINE_HYPHEN = 2  # the code that PDFium gives a hyphen at the end of a line
BLANKS = frozenset(b" \t\r\n\f\v\0") | {0xA0, 0x3000, *range(0x2000, 0x200C)}
LINE_ENDS = frozenset(b"\r\n")
WIDER, WIDEST = 0.2, 0.6  # ems: gaps between letters that are spaced are no more unlike, and no larger
DIGITS = [*b"0123456789"]
Affine = tuple[float, float, float, float, float, float]  # x' = a x + c y + e, y' = b x + d y + f


def characters_of(page: pypdfium2.PdfPage, width: int, height: int) -> Characters:
    """What ``page`` says, in the pixels of its picture of ``width`` x ``height``. A page without text has none."""
    text = pdfium.FPDFText_LoadPage(page)
    if not text:
        return Characters.none()
    try:
        count = pdfium.FPDFText_CountChars(text)
        left, bottom, right, top = page.get_bbox()
        if count <= 0 or not (right > left and top > bottom):
            return Characters.none()
        return _read(text, count, _to_pixels(page, width, height))
    finally:
        pdfium.FPDFText_ClosePage(text)


def _to_pixels(page: pypdfium2.PdfPage, width: int, height: int) -> Affine:
    """From the page's own coordinates, which know nothing of its rotation, to its picture."""
    left, bottom, right, top = page.get_bbox()
    across, along = right - left, top - bottom
    turned = page.get_rotation()
    if turned in (90, 270):
        x_scale, y_scale = height / across, width / along
    else:
        x_scale, y_scale = width / across, height / along
    return {
        90: (0.0, x_scale, y_scale, 0.0, -bottom * y_scale, -left * x_scale),
        180: (-x_scale, 0.0, 0.0, y_scale, right * x_scale, -bottom * y_scale),
        270: (0.0, -x_scale, -y_scale, 0.0, top * y_scale, right * x_scale),
    }.get(turned, (x_scale, 0.0, 0.0, -y_scale, -left * x_scale, top * y_scale))


def _quick(name: str, result: Any, *arguments: Any) -> Callable[..., int]:
    """A function of PDFium that takes addresses as numbers: a page has thousands of characters, and a call of ctypes
    with its usual conversions takes several times as long."""
    found = getattr(pdfium, name)
    address = ctypes.cast(found, ctypes.c_void_p).value
    assert address is not None
    return ctypes.CFUNCTYPE(result, *arguments)(address)


_POINTER, _INDEX, _TRUTH = ctypes.c_void_p, ctypes.c_int, ctypes.c_int
_unicode = _quick("FPDFText_GetUnicode", ctypes.c_uint, _POINTER, _INDEX)
_object = _quick("FPDFText_GetTextObject", ctypes.c_void_p, _POINTER, _INDEX)
_box = _quick("FPDFText_GetCharBox", _TRUTH, _POINTER, _INDEX, *[_POINTER] * 4)
_origin = _quick("FPDFText_GetCharOrigin", _TRUTH, _POINTER, _INDEX, *[_POINTER] * 2)
_generated = _quick("FPDFText_IsGenerated", _TRUTH, _POINTER, _INDEX)
_unmapped = _quick("FPDFText_HasUnicodeMapError", _TRUTH, _POINTER, _INDEX)


def _read(text: Any, count: int, to_pixels: Affine) -> Characters:
    handle = ctypes.cast(text, ctypes.c_void_p).value
    codes = [_unicode(handle, index) for index in range(count)]
    indices = [index for index, code in enumerate(codes) if code not in BLANKS]
    drawn_by = [_object(handle, index) for index in indices]  # none: PDFium's own, where there is a gap or a line ends
    drawn = [(index, by) for index, by in zip(indices, drawn_by, strict=True) if by]
    complete, drawn = len(drawn) <= MOST_CHARACTERS, drawn[:MOST_CHARACTERS]
    if not drawn:
        return Characters.none()
    found = np.zeros(len(drawn), CHARACTER)
    places = np.zeros((len(drawn), 6))  # left, right, bottom, top; x, y: in the page's own coordinates
    start, step = places.ctypes.data, places.strides[0]
    for address, (index, _) in zip(range(start, start + len(drawn) * step, step), drawn, strict=True):
        _box(handle, index, address, address + 8, address + 16, address + 24)
        _origin(handle, index, address + 32, address + 40)
    styles = _Styles(text, to_pixels)
    found["style"] = styles.numbers(drawn)
    at = np.array([index for index, _ in drawn])
    found["code"] = np.array(codes)[at]
    adjacent = np.diff(at, prepend=-1) == 1
    adjacent[0] = False
    same_place = (np.diff(places[:, 4:], axis=0, prepend=np.nan) == 0).all(1)
    found["code"][found["code"] == LINE_HYPHEN] = ord("-")
    a, b, c, d, e, f = to_pixels
    across, along = places[:, [0, 1]], places[:, [2, 3]]
    xs, ys = a * across + c * along + e, b * across + d * along + f
    found["box"] = np.stack([xs.min(1), ys.min(1), xs.max(1), ys.max(1)], 1)
    x, y = places[:, 4], places[:, 5]
    found["origin"] = np.stack([a * x + c * y + e, b * x + d * y + f], 1)
    table = styles.table()
    blanks = [index for index, code in enumerate(codes) if code in BLANKS and not _generated(handle, index)]
    of_file = np.diff(np.searchsorted(blanks, at), prepend=0) > 0
    seen = ~adjacent & ~of_file & ~np.array([codes[index - 1] in LINE_ENDS for index in at.tolist()])
    found["flags"] = (
        UNMAPPED * np.array(_unmapped_ones(handle, drawn, codes), bool)
        | PIECE * (adjacent & same_place)
        | AFTER_BLANK * (~adjacent & ~_spaced(found, table["size"][found["style"]], of_file, seen))
    )
    near = (np.abs(found["box"]) <= FURTHEST).all(1) & (np.abs(found["origin"]) <= FURTHEST).all(1)
    return Characters(found[near], table, complete)


def _spaced(each: np.ndarray, size: np.ndarray, of_file: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Which of the gaps that PDFium has ``seen`` before characters are no blanks, bool: those about two or more single
    letters, if they are not much wider than the gap beside them, and the file has most of the page's other blanks
    (``of_file``). Browsers place each letter of a spaced word by itself, and PDFium then sees a blank before each.
    Single digits may be columns."""
    gap = np.full(len(each), np.inf)  # in ems
    gap[1:] = (each["box"][1:, 0] - each["box"][:-1, 2]) / np.maximum(size[1:], 0.01)
    gap[~(of_file | seen)] = np.inf
    gaps = np.pad(np.isfinite(gap), 2)
    three = gaps[:-2] & gaps[1:-1] & gaps[2:]
    single = three[:-2] | three[1:-1] | three[2:]
    if of_file.sum() <= (seen & ~single).sum():
        return np.zeros(len(each), bool)
    sides = np.pad(gap, 1, constant_values=np.inf)
    digit = np.isin(each["code"], DIGITS)
    digits = digit & np.roll(digit, 1)
    return seen & single & ~digits & (gap < np.minimum(np.minimum(sides[:-2], sides[2:]) + WIDER, WIDEST))


def _unmapped_ones(handle: int | None, drawn: list[tuple[int, int]], codes: list[int]) -> list[int]:
    """Whether PDFium knows no character for each; it is asked once for each code of each text object."""
    known: dict[tuple[int, int], int] = {}
    for index, by in drawn:
        if (by, codes[index]) not in known:
            known[by, codes[index]] = _unmapped(handle, index)
    return [known[by, codes[index]] for index, by in drawn]


class _Styles:
    """The styles of a page by their numbers."""

    def __init__(self, text: Any, to_pixels: Affine) -> None:
        self._text, self._to_pixels = text, to_pixels
        self._fonts: dict[int, int] = {}
        self._known: dict[tuple, int] = {}

    def numbers(self, drawn: list[tuple[int, int]]) -> list[int]:
        """Of characters by their indices and the addresses of the text objects that draw them."""
        numbers, last, number = [], 0, 0
        for index, by in drawn:
            if by != last:
                last, number = by, self.number(index, by)
            numbers.append(number)
        return numbers

    def number(self, index: int, drawn_by: int) -> int:
        """That of the character at ``index``, which the text object at the address ``drawn_by`` draws."""
        found = ctypes.cast(drawn_by, pdfium.FPDF_PAGEOBJECT)
        font = pdfium.FPDFTextObj_GetFont(found)
        address = ctypes.cast(font, ctypes.c_void_p).value or 0
        number = self._fonts.setdefault(address, min(len(self._fonts), MOST_STYLES))
        matrix = pdfium.FS_MATRIX()
        pdfium.FPDFText_GetMatrix(self._text, index, matrix)
        a, b, c, d, _, _ = self._to_pixels
        along = (a * matrix.a + c * matrix.b, b * matrix.a + d * matrix.b)
        up = (a * matrix.c + c * matrix.d, b * matrix.c + d * matrix.d)
        size = pdfium.FPDFText_GetFontSize(self._text, index) * math.hypot(*up)
        sign = math.copysign(1.0, size)  # a font of negative size runs against its matrix
        angle = math.degrees(math.atan2(sign * along[1], sign * along[0]))
        colour = [ctypes.c_uint() for _ in range(4)]
        pdfium.FPDFText_GetFillColor(self._text, index, *colour)
        red, green, blue, opacity = (part.value & 255 for part in colour)
        mode = pdfium.FPDFTextObj_GetTextRenderMode(found)
        style = (
            number,
            round(abs(size), 2) if abs(size) <= FURTHEST else 0.0,
            round(angle, 1) if math.isfinite(angle) else 0.0,
            red << 24 | green << 16 | blue << 8 | opacity,
            mode & 255,
        )
        if len(self._known) >= MOST_STYLES:
            return self._known.setdefault(style, MOST_STYLES - 1) if style in self._known else MOST_STYLES - 1
        return self._known.setdefault(style, len(self._known))

    def table(self) -> np.ndarray:
        return np.array(list(self._known), STYLE)
