# SPDX-License-Identifier: Apache-2.0
"""The characters of a page on their way from the renderer, and what is refused there."""

from __future__ import annotations

import numpy as np
import pytest

from docparser.documents.limits import DocumentLimits
from docparser.documents.reader import DocumentReader
from docparser.documents.spool import Document
from docparser.own_text import characters as module
from docparser.own_text.characters import CHARACTER, STYLE, Characters, ForeignBytes
from docparser.own_text.page_text import OwnText
from docparser.own_text.pdfium_text import characters_of
from docparser.settings import Settings
from tests.support import samples
from tests.support.born_digital import pdf, text


def some(**changes) -> Characters:
    each, styles = np.zeros(3, CHARACTER), np.array([(0, 20, 0, 400, 255, 0)], STYLE)
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
