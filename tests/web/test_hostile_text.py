# SPDX-License-Identifier: Apache-2.0
"""The page's reading of strangers' text: as the service reads it, and in time that grows with the text."""

from __future__ import annotations

import html
import random

import pytest
from playwright.sync_api import expect

from tests.web.by_service import by_service
from tests.web.pages import page_of

PIECES = ("$", "$$", "\\[", "\\]", "\\(", "\\)", "\\", "\n", "5", "x", "ab", " cd", "=", " ", "_", "(", "]", "{", "^2",
          "é", "٥", "/", ";", "+", ".*", "abcd", "\\1", "[^", "\\alpha", ",", "'", "-ab", ">")  # fmt: skip
SCAN = """async (texts) => {
    const { displayFormulas, inlineFormulas } = await import("/ui/formula_scanner.js");
    const finds = [displayFormulas, inlineFormulas];
    return texts.map((text) => finds.map((find) => [...find(text)].map((f) => [f.start, f.end, f.latex])));
}"""
# How many times as long a text of eight times the length takes, by the fastest runs of each. More runs follow, as long
# as that is not below the bound: a busy machine makes single runs slow, and never a slow scanner fast.
GROWTH = """async ({ piece, bound }) => {
    const { displayFormulas, inlineFormulas } = await import("/ui/formula_scanner.js");
    const texts = [piece.repeat(40_000), piece.repeat(320_000)];
    const fastest = [Infinity, Infinity];
    const growth = () => fastest[1] / Math.max(fastest[0], 0.5);
    for (let run = 0; run < 3 || (run < 15 && growth() >= bound); run++) {
        texts.forEach((text, which) => {
            const began = performance.now();
            for (const find of [displayFormulas, inlineFormulas]) for (const _ of find(text));
            fastest[which] = Math.min(fastest[which], performance.now() - began);
        });
    }
    return growth();
}"""
BOUND = 24
CUT = """async (tables) => {
    const { render } = await import("/ui/markdown.js");
    return Promise.all(tables.map(async (html) => {
        const block = { block_label: "table", block_content: html, block_bbox: [0, 0, 9, 9] };
        const entry = { prunedResult: { parsing_res_list: [block] }, markdown: { text: html } };
        const root = await render(entry, {});
        return [...root.querySelectorAll("td")].map((cell) => [cell.rowSpan, cell.colSpan]);
    }));
}"""

# What the page shows of blocks of text, each with the number of its block.
SHOW = """async (blocks) => {
    const { render } = await import("/ui/markdown.js");
    const block_bbox = [0, 0, 9, 9];
    const listed = blocks.map(([label, text]) => ({ block_label: label, block_content: text, block_bbox }));
    const root = await render({ prunedResult: { parsing_res_list: listed }, markdown: { text: "" } }, {});
    const inside = [...root.querySelectorAll("*")].map((element) => element.localName);
    return [[...root.children].map((element) => [Number(element.dataset.block), element.textContent]), inside];
}"""
PRINTED = """from tests.support.printed_texts import labelled
answer = labelled()
"""

# The same of the service's own code.
SCAN_BY_SERVICE = """
from docparser.formula_signs import display_formulas, inline_formulas
finds = (display_formulas, inline_formulas)
answer = [[[[f.start, f.end, f.latex] for f in find(text)] for find in finds] for text in given]
"""
CUT_BY_SERVICE = """
from docparser.html_tables import read_tables
answer = [[[cell.rows, cell.columns] for cell in read_tables(html)[0].cells] for html in given]
"""


@pytest.fixture(scope="module")
def printed() -> list[list[str]]:
    """Labels of blocks, and what is printed in them."""
    return by_service(PRINTED)


def test_text_is_shown_as_it_was_printed(site, printed):
    blocks = printed
    assert len(blocks) >= 20
    shown, elements = site.open().evaluate(SHOW, blocks)
    assert [(number, text) for number, text in shown] == [(number, text) for number, (_, text) in enumerate(blocks)]
    assert set(elements) <= {"p", "div", "pre", "h1", "h2", "h3", "h4", "h5", "h6"}


def test_tables_show_what_was_printed_in_cells(site, printed):
    texts = [text for _, text in printed]
    rows = "".join(f"<tr><td>{html.escape(text)}</td></tr>" for text in texts)
    (_, shown), *_ = site.open().evaluate(SHOW, [["table", f"<table>{rows}</table>"]])[0]
    assert shown == "".join(texts)


OWN = r"Write \(x^2\), $y_1$ or $$z = 1$$."
SHOW_OWN = """async (text) => {
    const { render } = await import("/ui/markdown.js");
    const block = { block_label: "text", block_content: text, block_bbox: [0, 0, 9, 9], source: "page",
                    agreement: null };
    const table = { ...block, block_label: "table", block_content: `<table><tr><td>${text}</td></tr></table>` };
    const parsing_res_list = [block, table, { ...block, source: "vlm" }];
    const entry = { prunedResult: { parsing_res_list }, markdown: { text: "" } };
    return [...(await render(entry, {})).children].map((element) => element.textContent);
}"""


def test_a_text_that_is_the_pages_own_has_no_formulas(site):
    own, table, read = site.open().evaluate(SHOW_OWN, OWN)
    assert (own, table) == (OWN, OWN) and read != OWN


def test_formulas_are_those_of_the_service(site):
    draw = random.Random(14)
    texts = [text for _, text in by_service(PRINTED)]
    texts += ["".join(draw.choices(PIECES, k=draw.randint(1, 30))) for _ in range(3000)]
    assert site.open().evaluate(SCAN, texts) == by_service(SCAN_BY_SERVICE, texts)


OTHERS = ("\\(a1 ", "$$a ", "\\[ \\( ")


@pytest.mark.parametrize(
    "piece", ["\\[a1 ", "$a1 ", *(pytest.param(piece, marks=pytest.mark.long) for piece in OTHERS)]
)
def test_time_grows_with_the_length(site, piece):
    """The expressions that stood here took over 40 times as long for eight times the text."""
    assert site.open().evaluate(GROWTH, {"piece": piece, "bound": BOUND}) < BOUND


HOSTILE_TABLE = (
    "<table><tr>" + "".join(f"<td rowspan=65000 colspan=1000>{i}</td>" for i in range(270)) + "</tr></table>"
)
TABLES = (
    "<table><tr><td rowspan=2>a</td><td colspan=2>b</td></tr><tr><td>c</td><td>d</td></tr></table>",
    HOSTILE_TABLE,
    "<table>" + "<tr><td rowspan=65000 colspan=1000>x</td><td>y</td></tr>" * 50 + "</table>",
    "<table><tr><td colspan=5>h</td></tr><tr><td rowspan=2>a</td><td>b</td></tr><tr><td>c</td></tr></table>",
)


def test_spans_are_cut_as_the_service_cuts_them(site):
    assert site.open().evaluate(CUT, TABLES) == by_service(CUT_BY_SERVICE, TABLES)


def test_a_page_of_hostile_text_is_shown(site, says, file):
    pieces = ("".join(f"\\[a{i} " for i in range(40_000)), HOSTILE_TABLE, "".join(f"<p {i} " for i in range(10_000)))
    says(page_of("\n\n".join([*pieces, "last words"])))
    page = site.open()
    page.set_input_files("#files", file())
    expect(page.locator(".row[aria-current] .prose")).to_contain_text("last words")
    assert page.locator(".row[aria-current] .prose td").first.evaluate("cell => [cell.rowSpan, cell.colSpan]") == [1, 1]
