# SPDX-License-Identifier: Apache-2.0
"""Tables by their cells: a question for each line of print, and the answers as OTSL."""

from __future__ import annotations

import base64
import html
import io
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docparser.page.paddlex_private import convert_otsl_to_html
from docparser.page.question import Question
from docparser.places.box import Grid, GridCell, PixelBox
from docparser.small_print import cells
from docparser.small_print.bands import picture_of
from docparser.small_print.cells import Cells
from docparser.small_print.reading import one
from docparser.vlm.client import Reply
from docparser.vlm.failures import BlockNote
from tests.support.fonts import font
from tests.support.simulated_vlm import image_of, prompt_of
from tests.support.wait import wait_for

ROWS = [["Item", "Price", "Notes"], ["Pen", "", "very fine"], ["Notebooks", "12.50", "ruled"]]
NOWHERE = PixelBox(0, 0, 9, 9)


def table(size: int = 20, head: str = "white") -> Image.Image:
    """A ruled one; print is white on a dark ``head``."""
    pitch, width, height = 7 * size, 21 * size, 6 * size
    image = Image.new("RGB", (width + 1, height + 1), "white")
    draw, face = ImageDraw.Draw(image), font(size)
    draw.rectangle((0, 0, width, 2 * size), fill=head)
    for number, row in enumerate(ROWS):
        for column, text in enumerate(row):
            ink = "white" if number == 0 and head != "white" else "black"
            draw.text((pitch * column + size / 2, size * (2 * number + 1.4)), text, fill=ink, font=face, anchor="ls")
    for number in range(4):
        draw.line((0, 2 * size * number, width, 2 * size * number), fill="black")
        draw.line((pitch * number, 0, pitch * number, height), fill="black")
    return image


def question(image: Image.Image) -> Question:
    return Question(np.asarray(image)[:, :, ::-1], "Table Recognition:", 112_896, 1_003_520)


def asked(image: Image.Image) -> Cells:
    found = cells.find(question(image))
    assert found is not None
    return found


def test_each_cell_with_print_is_a_question_of_its_own():
    whole = question(table())
    found = cells.find(whole)
    assert found is not None and len(found.questions) == 8, "nothing is asked of the empty cell"
    assert [cell.prompt for cell in found.questions] == ["OCR:"] * 8
    lines = [line for cell in found.grid.cells for line in cell.lines]
    for cell, line in zip(found.questions, lines, strict=True):
        image = picture_of(cell)
        height = max(found.grid.line, line.bottom - line.top)
        assert image.height == pytest.approx(line.bottom - line.top + 2 + height, abs=2)
        enlarged = (22 * 2.2 / height) ** 2 * image.width * image.height
        assert cell.most_pixels == 1_003_520
        assert cell.least_pixels == pytest.approx(max(784, enlarged), rel=0.01)
        corner = np.asarray(image.convert("L"))[:4, :4]
        assert corner.min() > 240, "paper around the print, and no rule"
    assert whole.prompt == "Table Recognition:" and whole.least_pixels == 112_896


def test_white_print_is_asked_as_dark():
    dark, light = (asked(table(head=head)) for head in ("#202840", "white"))
    assert len(dark.questions) == 8
    for cell in dark.questions:
        assert np.median(np.asarray(picture_of(cell).convert("L"))) > 200
    wide = [[cell.picture.shape[1] for cell in found.questions[:3]] for found in (dark, light)]
    assert wide[0] == pytest.approx(wide[1], abs=4)


def test_large_print_is_not_enlarged():
    for cell in asked(table(80)).questions:
        assert cell.least_pixels == cell.picture.shape[0] * cell.picture.shape[1]


def test_no_grid_no_cells():
    assert cells.find(question(Image.new("RGB", (300, 200), "white"))) is None


def made(rows: int, columns: int, *placed: tuple[int, int, int, int, int]) -> Cells:
    """Cells at (row, column) over (rows, columns) with a number of lines."""
    given = tuple(GridCell(*place[:4], NOWHERE, (NOWHERE,) * place[4]) for place in placed)
    line = question(Image.new("RGB", (9, 9)))
    return Cells(Grid(rows, columns, 20.0, given), [line] * sum(place[4] for place in placed))


def test_answers_become_otsl():
    title = made(2, 2, (0, 0, 1, 2, 1), (1, 0, 1, 1, 1), (1, 1, 1, 1, 0))
    assert title.otsl(["Prices ", "a\nb"]) == "<fcel>Prices<lcel><nl><fcel>a b<ecel><nl>"
    assert convert_otsl_to_html(title.otsl(["Prices", "<"])) == (
        '<table><tr><td colspan="2">Prices</td></tr><tr><td>&lt;</td><td></td></tr></table>'
    )
    high = made(2, 3, (0, 0, 2, 2, 2), (0, 2, 1, 1, 1), (1, 2, 1, 1, 1))
    assert high.otsl(["two", "lines", "x", ""]) == "<fcel>two lines<lcel><fcel>x<nl><ucel><xcel><ecel><nl>"
    assert convert_otsl_to_html(high.otsl(["two", "lines", "x", "y"])) == (
        '<table><tr><td rowspan="2" colspan="2">two lines</td><td>x</td></tr><tr><td>y</td></tr></table>'
    )
    assert made(1, 1, (0, 0, 1, 1, 1)).otsl(["alone"]) == "<fcel>alone<nl>"


@pytest.mark.parametrize(
    "text, kept",
    [("<fcel>12<nl>", "12"), ("<fc<nl>el>12", "12"), ("<nl>", ""), ("a < b", "a < b"), ("<td>x</td>", "<td>x</td>")],
)
def test_marks_in_an_answer_make_no_cells(text: str, kept: str):
    one = made(1, 1, (0, 0, 1, 1, 1)).otsl([text])
    assert one == (f"<fcel>{kept}<nl>" if kept else "<ecel><nl>")
    assert convert_otsl_to_html(one) == f"<table><tr><td>{html.escape(kept)}</td></tr></table>"


def test_the_reply_to_a_table_is_made_of_those_to_its_cells():
    pair = made(1, 2, (0, 0, 1, 1, 1), (0, 1, 1, 1, 1))
    cut, lost = BlockNote("length", "it is cut"), BlockNote("failed", "it is lost")
    reply = one([Reply("abcd", None, (5, 2), 1.0), Reply("ab", cut, (6, 1), 0.4)], pair.otsl)
    assert reply.confidence == pytest.approx(0.8)
    assert (reply.text, reply.note, reply.tokens) == ("<fcel>abcd<fcel>ab<nl>", cut, (11, 3))
    assert one([Reply("a"), Reply("", lost)], pair.otsl) == Reply("<fcel>a<ecel><nl>", lost)
    assert one([Reply("", lost), Reply("", lost)], pair.otsl) == Reply("", lost), "no table of nothing"


def whole_page(service, image: Image.Image) -> dict[str, Any]:
    """The one block of a page that is read as a table."""
    coded = io.BytesIO()
    image.save(coded, "PNG")
    document = base64.b64encode(coded.getvalue()).decode()
    answer = service.parse(document, useLayoutDetection=False, promptLabel="table", visualize=False)
    assert answer.status_code == 200, answer.text
    (block,) = answer.json()["result"]["layoutParsingResults"][0]["prunedResult"]["parsing_res_list"]
    return {**block, "report": answer.json()["result"]["docparser"]}


def texts_of(markup: str) -> list[list[str]]:
    return [re.findall("<td[^>]*>([^<]*)</td>", row) for row in markup.split("</tr>")[:-1]]


def test_the_demo_is_asked_for_cells_and_other_weights_for_the_table(service, vlm):
    def knows(demo: bool) -> bool:
        return service.client.get("/health/ready").json()["result"]["vlm"]["demo"] is demo

    def width(request: dict, number: int) -> str:
        return str(image_of(request).width)

    wait_for(lambda: knows(False), what="weights that are not the demo's")
    vlm.answer = lambda request, number: "<fcel>one<nl>"
    assert texts_of(whole_page(service, table())["block_content"]) == [["one"]]
    assert [prompt_of(request) for request in vlm.requests] == ["Table Recognition:"]
    usual, vlm.root = vlm.root, "/models/demo/PaddleOCR-VL"
    try:
        wait_for(lambda: knows(True), what="the demo's weights")
        vlm.answer = width
        vlm.requests.clear()
        read = whole_page(service, table())
        told = {prompt_of(request) for request in vlm.requests}
        vlm.answer = lambda request, number: (400, "too hot") if image_of(request).width > 90 else "cell"
        partly = whole_page(service, table())
        vlm.answer, empty = lambda request, number: "text", Image.new("RGB", (400, 300), "white")
        vlm.requests.clear()
        as_before = whole_page(service, empty)
        alone = [prompt_of(request) for request in vlm.requests]
    finally:  # the service remembers what it knows
        vlm.root = usual
        wait_for(lambda: knows(False), what="other weights again")
    face = font(20)
    found = texts_of(read["block_content"])
    assert [[bool(text) for text in row] for row in found] == [[bool(text) for text in row] for row in ROWS]
    for row, said in zip(ROWS, found):
        for text, pixels in zip(row, said):
            # Beside the print half a line of paper on both sides.
            assert not text or int(pixels) == pytest.approx(face.getlength(text) + 20, abs=8), text
    assert told == {"OCR:"} and read["confidence"] == pytest.approx(0.999, abs=0.01)
    assert texts_of(partly["block_content"]) == [["cell", "cell", "cell"], ["cell", "", ""], ["", "cell", "cell"]]
    (failure,) = partly["report"]["pages"][0]["blocks"]
    assert partly["report"]["partial"] and failure["kind"] == "refused" and "too hot" in failure["message"]
    assert alone == ["Table Recognition:"] and as_before["block_content"] == "text"
