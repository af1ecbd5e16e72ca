# SPDX-License-Identifier: Apache-2.0
"""The characters of a page on their way from the renderer, and what is refused there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from docparser.documents.page import DocumentLimits
from docparser.documents.reader import DocumentReader
from docparser.documents.spool import Document
from docparser.own_text import characters as module
from docparser.own_text import truth
from docparser.own_text.characters import (
    CHARACTER,
    MOST_CHARACTERS,
    MOST_STYLES,
    NEAR,
    STYLE,
    Characters,
    ForeignBytes,
)
from docparser.own_text.page_text import OwnText, _mixed
from docparser.own_text.pdfium_text import _to_pixels, characters_of
from docparser.settings import Settings
from tests.support import samples
from tests.support.born_digital import pdf, text


def some(**changes) -> Characters:
    each, styles = np.zeros(3, CHARACTER), np.array([(0, 20, 0, 255, 0)], STYLE)
    for name, value in changes.items():
        (styles if name in (STYLE.names or ()) else each)[name] = value
    return Characters(each, styles)


def test_a_renderer_sends_them_where_they_are_asked_for(tmp_path):
    (tmp_path / "true.pdf").write_bytes(pdf(text("Seen and said.")))
    (tmp_path / "scan.png").write_bytes(samples.save(samples.picture((200, 100), "RGB", 9), "PNG"))
    document, scan = Document(str(tmp_path / "true.pdf"), "PDF"), Document(str(tmp_path / "scan.png"), "PNG")
    reader = DocumentReader(DocumentLimits.of(Settings()))
    try:
        plain, page = reader.read_page(document, 0), reader.read_page(document, 0, own_text=True)
        assert plain.characters is None and (plain.pixels == page.pixels).all()
        assert page.characters is not None
        side = page.pixels.shape[0]
        (block,) = OwnText(page.characters, page.pixels).blocks([(0, 0, side, side)])
        assert block.true and block.text == "Seen and said."
        assert reader.read_page(scan, 0, own_text=True).characters is None
    finally:
        reader.close()


def test_they_are_the_same_after_the_way():
    sent = some(code=65)
    found = Characters.from_bytes(sent.to_bytes())
    assert (found.each == sent.each).all() and (found.styles == sent.styles).all() and found.complete


FOREIGN = {
    "no head": b"\0",
    "too short": some().to_bytes()[:-1],
    "too long": some().to_bytes() + b"\0",
    "no such style": some(style=1).to_bytes(),
    "no character": some(code=0x110000).to_bytes(),
    "a place that is none": some(origin=np.nan).to_bytes(),
    "an endless box": some(box=np.inf).to_bytes(),
    "an endless size": some(size=np.inf).to_bytes(),
    "more than there may be": b"\xff" * 9,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_bytes_are_refused(name):
    with pytest.raises(ForeignBytes):
        Characters.from_bytes(FOREIGN[name])


@pytest.mark.parametrize(
    ("characters", "styles", "words"),
    [
        (MOST_CHARACTERS + 1, 1, "characters in"),
        (1, MOST_STYLES + 1, "characters in"),
        (MOST_CHARACTERS, MOST_STYLES, "bytes for"),
    ],
)
def test_more_than_a_page_may_have_are_not_looked_at(characters: int, styles: int, words: str):
    with pytest.raises(ForeignBytes, match=rf"^\d+ {words}"):
        Characters.from_bytes(module._HEAD.pack(characters, styles, True))


RUNS = {
    "one line": ([(0, 0), (10, 0), (20, 0)], [0]),
    "as far as a word's gap": ([(0, 0), (20 * NEAR, 0), (40 * NEAR, 0)], [0]),
    "further": ([(0, 0), (20 * NEAR + 1, 0), (20 * NEAR + 9, 0)], [0, 1]),
    "back": ([(10, 0), (9, 0), (20, 0)], [0, 1]),
    "a raised sign": ([(0, 0), (10, 6), (20, 0)], [0]),
    "another line": ([(0, 0), (10, 7), (20, 7)], [0, 1]),
    "another line above": ([(0, 0), (10, -7), (20, -7)], [0, 1]),
}


@pytest.mark.parametrize(("places", "runs"), RUNS.values(), ids=RUNS)
def test_runs_are_what_stands_together(places: list[tuple[float, float]], runs: list[int]):
    found = some()
    found.each["box"][:, 0], found.each["origin"][:, 1] = zip(*places)
    assert found.runs().tolist() == runs
    styled = Characters(found.each, np.repeat(found.styles, 2), True)
    styled.each["style"][2] = 1
    assert styled.runs().tolist() == sorted({*runs, 2}), "a style of its own"


@pytest.mark.parametrize(("mode", "drawn"), [(0, 3), (2, 3), (3, 0), (7, 0)])
def test_a_scan_with_anothers_text_says_nothing(mode: int, drawn: int):
    assert len(OwnText(some(mode=mode), np.zeros((9, 9, 3), np.uint8))) == drawn


@pytest.mark.parametrize(
    ("words", "mixed"),
    [
        ("plain words", False),
        ("\u0434\u0430 \u043d\u0435\u0442", False),
        ("p\u0430y", True),  # a Cyrillic letter in a Latin word
        ("\u0434\u0430 p\u0430y", True),
        ("5 \u03bcm k\u03a9", False),
        ("\u0441\u043e\u0440\u0435 of some words", True),  # all Cyrillic, and looks like "cope"
        ("\u0441\u043e\u0440\u0435 \u0434\u0430 words", False),
        ("\u0441 of some words", False),
    ],
)
def test_letters_of_two_alphabets(words: str, mixed: bool):
    assert _mixed(words.split()) is mixed


@pytest.mark.parametrize(
    ("turn", "size", "first", "last"),
    [
        (0, (200, 400), (10, 220), (110, 20)),
        (90, (400, 200), (10, 20), (110, 220)),
        (180, (200, 400), (110, 20), (10, 220)),
        (270, (400, 200), (110, 220), (10, 20)),
    ],
)
def test_the_shown_part_of_a_page_is_its_picture(turn: int, size: tuple[int, int], first: Any, last: Any):
    """From 10, 20 to 110, 220 in the page's own coordinates, which its turn does not change."""
    page: Any = SimpleNamespace(get_bbox=lambda: (10, 20, 110, 220), get_rotation=lambda: turn)
    a, b, c, d, e, f = _to_pixels(page, *size)
    corners = [(a * x + c * y + e, b * x + d * y + f) for x, y in (first, last)]
    assert corners == [(0, 0), size]


def test_evidence_grows_from_like_to_unlike():
    ratio = truth.UNLIKE / truth.LIKE
    own = np.array([truth.LIKE / 2, truth.LIKE, truth.LIKE * ratio**0.25, truth.LIKE * ratio**0.5, truth.UNLIKE, 99.0])
    most = truth.MOST_WEIGHT
    for codes, scale in ((65, 1.0), (truth.IDEOGRAPHS, truth.LIKE_IDEOGRAPH / truth.LIKE)):
        same = truth.UNLIKE_IDEOGRAPH / truth.LIKE_IDEOGRAPH == pytest.approx(ratio)
        found = truth._evidence(np.full(len(own), codes), own * scale)
        expected = [-most, -most, -most / 2, 0, most, most]
        assert found.tolist() == pytest.approx(expected) or (codes != 65 and not same)


def test_no_more_are_read_than_a_page_may_have(monkeypatch):
    import pypdfium2

    from docparser.own_text import pdfium_text

    monkeypatch.setattr(pdfium_text, "MOST_CHARACTERS", 5)
    document = pypdfium2.PdfDocument(pdf(text("More than five.")))
    found = characters_of(document[0], 1000, 1000)
    document.close()
    assert len(found) == 5 and not found.complete and module.MOST_CHARACTERS > 5
    (block,) = OwnText(found, np.full((1000, 1000, 3), 255, np.uint8)).blocks([(0, 0, 1000, 1000)])
    assert "too_much" in block.doubts
