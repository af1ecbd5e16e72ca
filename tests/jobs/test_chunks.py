# SPDX-License-Identifier: Apache-2.0
"""Chunks for retrieval: headings, places, sizes; and tables that go on on the next page, in every format."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any, get_args

import docx
import openpyxl
import pytest

from docparser.convert import docling
from docparser.convert.chunks import estimate
from docparser.convert.document import ResultDocument, ResultPage
from docparser.convert.names import FORMATS, Format, How
from docparser.convert.table_joins import goes_on
from docparser.html_tables import Table, read_tables
from tests.support.converted import convert
from tests.support.entries import block_of, entry_of
from tests.support.paths import DATA

HEAD = "<tr><th>Well</th><th>March</th></tr>"


def row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def table(*rows: str) -> str:
    return f"<table>{''.join(rows)}</table>"


def page(*blocks: tuple[str, str], markdown: str | None = None) -> dict[str, Any]:
    """An entry with blocks of (label, content), one below the other."""
    listed = [
        block_of(label, content, (10, 20 * n, 90, 20 * n + 15), block_id=n) for n, (label, content) in enumerate(blocks)
    ]
    marks = {"doc_title": "# ", "paragraph_title": "## "}
    text = "\n\n".join(marks.get(label, "") + content for label, content in blocks)
    return entry_of(listed, text if markdown is None else markdown)


def document(*pages: dict[str, Any]) -> ResultDocument:
    return ResultDocument.from_answer("wells.pdf", {"layoutParsingResults": list(pages)})


def chunks(*pages: dict[str, Any], tokens: int = 512, join: bool = True, outline: bool = True) -> list[dict[str, Any]]:
    how = How(chunk_tokens=tokens, join_tables=join, outline=outline)
    lines = convert(document(*pages), "chunks", how).decode().splitlines()
    return [json.loads(line) for line in lines]


def test_headings_texts_places_and_names():
    first, second, third = chunks(
        page(("doc_title", "Wells"), ("header", "left out"), ("text", "In short."), ("paragraph_title", "1 Why")),
        page(("text", "Because of $x^2$."), ("text", "And so."), ("paragraph_title", "1.1 How"), ("text", "By hand.")),
    )
    assert [chunk["id"] for chunk in (first, second)] == ["wells-00001", "wells-00002"]
    assert (first["headings"], first["text"], first["pages"]) == (["Wells"], "In short.", [1])
    assert (second["headings"], second["text"]) == (["Wells", "1 Why"], "Because of $x^2$.\n\nAnd so.")
    assert second["boxes"][0] == {"page": 2, "label": "text", "box": [10, 0, 90, 15], "pageSize": [100, 140]}
    assert [box["box"][1] for box in second["boxes"]] == [0, 20]
    assert third["headings"] == ["Wells", "1 Why", "1.1 How"]
    assert first["tokens"] == estimate("In short.") == 4


def test_a_chunk_with_a_doubtful_block_says_so():
    entry = page(("doc_title", "Wells"), ("text", "One."), ("table", table(HEAD, row("a", "b"))), ("text", "Two."))
    blocks = entry["prunedResult"]["parsing_res_list"]
    for block, doubtful in zip(blocks, (False, True, False, False), strict=True):
        block |= {"confidence": 0.5, "doubtful": doubtful}
    assert [(chunk["kind"], chunk["doubtful"]) for chunk in chunks(entry)] == [
        ("text", True), ("table", False), ("text", False),
    ]  # fmt: skip
    assert not any(chunk["doubtful"] for chunk in chunks(page(("text", "of an answer without confidence"))))


def test_a_chunk_says_whose_its_text_is():
    entry = page(("doc_title", "Wells"), ("text", "One."), ("table", table(HEAD, row("a", "b"))), ("text", "Two."))
    blocks, told = entry["prunedResult"]["parsing_res_list"], (("page", None), ("vlm", 0.7), ("vlm", 0.9), (None, None))
    for block, (source, agreement) in zip(blocks, told, strict=True):
        block |= {"source": source, "agreement": agreement}
    assert [(chunk.get("sources"), chunk.get("agreement")) for chunk in chunks(entry)] == [
        (["vlm"], 0.7), (["vlm"], 0.9), (None, None),
    ]  # fmt: skip


def test_without_the_outline_levels_of_the_markdown_count_and_headings_alone_are_not_lost():
    found = chunks(
        page(("doc_title", "Wells"), ("paragraph_title", "A"), ("paragraph_title", "B"), ("text", "b"),
             markdown="# Wells\n\n## A\n\n### B\n\nb"),
        page(("paragraph_title", "C"), ("paragraph_title", "D")),
        outline=False,
    )  # fmt: skip
    assert [(chunk["kind"], chunk["headings"], chunk["text"]) for chunk in found] == [
        ("text", ["Wells", "A", "B"], "b"),
        ("heading", ["Wells", "C"], "C"),
        ("heading", ["Wells", "D"], "D"),
    ]


@pytest.mark.parametrize("tokens", [32, 100])
@pytest.mark.parametrize(
    "text",
    [
        "One sentence of some words. " * 60,
        "没有空格的文字也要分开。" * 60,
        "word " * 600,
        "x" * 3000,
        "\n".join(f"line {n}" for n in range(300)),
    ],
)
def test_no_chunk_is_longer_than_asked_for_and_nothing_is_lost(text, tokens):
    found = chunks(page(("text", text), ("text", "short"), ("text", text)), tokens=tokens)
    assert all(0 < chunk["tokens"] <= tokens for chunk in found)
    whole = "".join("".join(chunk["text"].split()) for chunk in found)
    assert whole == "".join((text + "short" + text).split())


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("four", 1), ("fives", 2), ("eightsix", 2), ("12345", 2), ("\u6c34\u4e95", 2), ("a.b", 3), ("a_b c", 4)],
)
def test_what_a_text_is_taken_to_cost(text: str, tokens: int):
    assert estimate(text) == tokens


@pytest.mark.parametrize(("last", "sizes"), [("w " * 16, [32]), ("w " * 17, [16, 17])])
def test_a_chunk_is_filled_to_its_bound(last: str, sizes: list[int]):
    texts = page(("text", "w " * 16), ("text", last))
    assert [chunk["tokens"] for chunk in chunks(texts, tokens=32)] == sizes
    assert [chunk["tokens"] for chunk in chunks(page(("text", f"{'w ' * 15}w.\n{last}")), tokens=33)] == (
        [33] if len(sizes) == 1 else [17, 17]
    )


@pytest.mark.parametrize(("tokens", "rows"), [(64, [4, 4]), (63, [3, 3, 2])])
def test_a_part_of_a_table_is_filled_to_its_bound(tokens: int, rows: list[int]):
    """Its head costs 20 tokens here, and each row 11."""
    said = table("<tr><th>a</th><th>b</th><th>c</th></tr>", *(row("w w", "w w", "w w w") for _ in range(8)))
    found = chunks(page(("table", said)), tokens=tokens)
    assert [chunk["text"].count("w w w") for chunk in found] == rows
    assert [chunk["tokens"] for chunk in found] == [20 + 11 * count for count in rows]


@pytest.mark.parametrize(("tokens", "heads"), [(40, 8), (39, 1)])
def test_a_header_that_leaves_no_room_for_rows_is_said_once(tokens: int, heads: int):
    said = table("<tr><th>a</th><th>b</th><th>c</th></tr>", *(row("w w", "w w", "w w w") for _ in range(8)))
    found = chunks(page(("table", said)), tokens=tokens)
    assert sum("| a | b | c |" in chunk["text"] for chunk in found) == heads
    assert sum(chunk["text"].count("| w w w |") for chunk in found) == 8


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [("", "h"), ("ll", "hpppppppp"), ("ls", "hpppps"), ("sl", "spppp"), ("lsl", "hppppspppp")],
)
def test_a_header_is_said_before_a_row_that_does_not_fit_beside_it(rows: str, kinds: str):
    """A row is short or long; a chunk is the header alone, with a short row, or a piece of a long row alone."""
    words = [240 if one == "l" else 2 for one in rows]
    said = table("<tr><th>Clause</th><th>Wording</th></tr>", *(row("7", "w " * count) for count in words))
    found = chunks(page(("table_title", "Table 3: Words"), ("table", said)), tokens=64)
    assert all(chunk["tokens"] <= 64 for chunk in found)
    head = "Table 3: Words\n\n| Clause | Wording |\n|---|---|"
    texts = [chunk["text"] for chunk in found]
    assert "".join("p" if head not in text else "h" if text == head else "s" for text in texts) == kinds
    assert sum(text.count("w") for text in texts) == sum(words)


def test_a_long_table_is_cut_between_rows_and_its_header_is_said_again():
    rows = [row(f"Mill {n}", f"0.{n:03d}") for n in range(60)]
    found = chunks(page(("table_title", "Table 1"), ("table", table(HEAD, *rows)), ("text", "after")), tokens=64)
    tables = [chunk for chunk in found if chunk["kind"] == "table"]
    assert len(tables) > 5 and all(chunk["tokens"] <= 64 for chunk in tables)
    heads = {tuple(chunk["text"].splitlines()[:4]) for chunk in tables}
    assert heads == {("Table 1", "", "| Well | March |", "|---|---|")}
    said = [line for chunk in tables for line in chunk["text"].splitlines()[4:]]
    assert said == [f"| Mill {n} | 0.{n:03d} |" for n in range(60)]
    assert [box["label"] for box in tables[0]["boxes"]] == ["table_title", "table"] and found[-1]["text"] == "after"


@pytest.mark.parametrize(
    ("labels", "captions"),
    [
        ("image figure_title table", [None]),  # below its picture
        ("chart figure_title table", [None]),
        ("image figure_title figure_title table", [2]),
        ("figure_title image figure_title table", [2]),  # captions stand above, here
        ("image figure_title image figure_title table", [None]),
        ("image table_title table", [1]),
        ("image text figure_title table", [2]),
        ("figure_title image table", [None]),
        ("figure_title table figure_title table", [0, 2]),
    ],
)
def test_a_caption_of_a_picture_is_no_tables(labels: str, captions: list[int | None]):
    contents = {"image": "", "chart": "", "table": table(row("a", "b"))}
    blocks = [(label, contents.get(label, f"said {n}")) for n, label in enumerate(labels.split())]
    found = chunks(page(*blocks))
    said = [chunk["text"].splitlines()[0] for chunk in found if chunk["kind"] == "table"]
    assert said == ["| a | b |" if n is None else f"said {n}" for n in captions]
    whole = "\n".join(chunk["text"] for chunk in found)
    assert all(whole.count(text) == 1 for _, text in blocks if text.startswith("said"))


def test_footnotes_are_in_every_format_that_was_asked_for_them():
    labels = ("text", "footnote", "aside_text", "number")
    for ignored, kept in ((None, {"text"}), (["number"], {"text", "footnote", "aside_text"}), ([], set(labels))):
        entry = page(*((label, f"the {label}") for label in labels), markdown="")
        entry["prunedResult"]["model_settings"] = {"markdown_ignore_labels": ignored}
        (chunk,) = chunks(entry)
        word = docx.Document(io.BytesIO(convert(document(entry), "docx")))
        said = (chunk["text"], convert(document(entry), "html").decode(), "\n".join(p.text for p in word.paragraphs))
        for text in (*said, convert(document(entry), "md", How(escape_markdown=True)).decode().replace("\\", "")):
            assert {label for label in labels if f"the {label}" in text} == kept


@pytest.mark.parametrize("shown", [False, True])
def test_the_number_of_a_formula_is_in_all_formats_or_in_none(shown: bool):
    markdown = "$$x^2 \\tag*{(3)}$$" if shown else "$$x^2$$"
    entry = page(("display_formula", "$$x^2$$"), ("formula_number", "(3)"), markdown=markdown)
    (chunk,) = chunks(entry)
    assert chunk["text"] == markdown
    for format in ("md", "html"):
        assert ("(3)" in convert(document(entry), format).decode()) is shown


def test_a_table_below_a_picture_does_not_go_on_whether_or_not_pictures_are_sent():
    """Markdown has no pictures beside it, and HTML has."""
    first = page(("table", MILL), ("image", ""), markdown=f'{MILL}\n\n<img src="imgs/a_box_10_20_90_35.jpg">')
    for images in ({}, {"imgs/a_box_10_20_90_35.jpg": "MTIz"}):
        first["markdown"]["images"] = images
        pages = first, page(("table", YARD))
        assert len(openpyxl.load_workbook(io.BytesIO(convert(document(*pages), "xlsx"))).worksheets) == 2
        assert [chunk["pages"] for chunk in chunks(*pages)] == [[1], [2]]
        assert convert(document(*pages), "md").decode().count("<table") == 2


def test_cells_that_cover_several_places_stand_in_each():
    (chunk,) = chunks(page(("table", table(row("a", "b"), "<tr><td rowspan=2>c</td><td>d|e</td></tr>", row("f")))))
    assert chunk["text"].splitlines() == ["| a | b |", "|---|---|", "| c | d\\|e |", "| c | f |"]


def test_text_of_joined_blocks_has_all_their_boxes():
    """PaddleOCR#17126: the text of several boxes stands in the first block."""
    entry = page(("text", "begins here and goes on there"), ("text", ""))
    for block in entry["prunedResult"]["parsing_res_list"]:
        block["group_id"] = 0
    (chunk,) = chunks(entry)
    assert [box["box"] for box in chunk["boxes"]] == [[10, 0, 90, 15], [10, 20, 90, 35]]


MILL, FARM, YARD = table(HEAD, row("Mill", "0.048")), table(HEAD, row("Farm", "0.031")), table(row("Yard", "0.009"))
CENTRED = f'before\n\n<div style="text-align: center;"><html><body>{MILL}</body></html></div>'
CONTINUED = (
    page(("text", "before"), ("table", MILL), ("number", "1"), markdown=CENTRED),
    page(("header", "left out"), ("table", FARM), markdown=FARM),
    page(("table", YARD), ("text", "after")),
)
ROWS: list[list[Any]] = [["Well", "March"], ["Mill", 0.048], ["Farm", 0.031], ["Yard", 0.009]]


def placed(*blocks: tuple[str, str], places: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return page(*blocks) | {
        "places": [{"block_id": number, "source": "ink", **said} for number, said in places.items()]
    }


def word(content: str, text: str, box: list[float]) -> dict[str, Any]:
    start = content.index(text)
    return {"text": text, "bbox": box, "start": start, "end": start + len(text)}


def test_a_chunk_says_where_its_words_and_cells_stand():
    long = " ".join(f"word{number}" for number in range(60))
    cell = {"row": 1, "column": 0, "rowSpan": 1, "columnSpan": 1, "bbox": [1, 2, 3, 4], "text": "North"}
    found = chunks(
        placed(
            ("paragraph_title", "Wells of the North"),
            ("text", "A first text."),
            ("text", long),
            ("table", table(HEAD, row("North", "1.5"))),
            places={
                0: {"words": [word("Wells of the North", "North", [5, 5, 9, 9])]},
                1: {"words": [word("A first text.", "first", [10, 0, 20, 5])]},
                2: {"words": [word(long, f"word{number}", [number, 0, number + 1, 5]) for number in (0, 30, 59)]},
                3: {"cells": [cell]},
            },
        ),
        tokens=48,
    )
    said = [
        (chunk["text"][place["start"] : place["end"]], place["page"], place["box"])
        for chunk in found
        for place in chunk["places"]
    ]
    assert said == [
        ("first", 1, [10, 0, 20, 5]),
        *((f"word{number}", 1, [number, 0, number + 1, 5]) for number in (0, 30, 59)),
        ("North", 1, [1, 2, 3, 4]),
    ]


def test_cells_of_a_table_over_pages_stand_on_theirs_and_a_heading_alone_has_places():
    cell = {"row": 1, "column": 0, "rowSpan": 1, "columnSpan": 1, "bbox": [1, 2, 3, 4], "text": "x"}
    two = [
        placed(("table", table(HEAD, row(text, "1"))), places={0: {"cells": [{**cell, "text": text}]}})
        for text in ("North", "South")
    ]
    (joined,) = chunks(*two)
    assert [(joined["text"][one["start"] : one["end"]], one["page"]) for one in joined["places"]] == [
        ("North", 1),
        ("South", 2),
    ]
    (alone,) = chunks(placed(("doc_title", "Wells"), places={0: {"lines": [word("Wells", "Wells", [1, 1, 2, 2])]}}))
    assert alone["places"] == [{"page": 1, "box": [1, 1, 2, 2], "start": 0, "end": 5}]


def test_chunks_say_no_places_where_nobody_asked():
    assert not any("places" in chunk for chunk in chunks(page(("doc_title", "Wells"), ("text", "words"))))
    assert [
        chunk["places"] for chunk in chunks(placed(("text", "words"), ("table", table(HEAD, row("a", "b"))), places={}))
    ] == [[], []]


def test_tables_over_pages_become_one_in_every_format():
    whole = document(*CONTINUED)
    markdown = convert(whole, "md").decode()
    assert markdown.count("<table") == markdown.count("<th>Well") == 1
    assert markdown.index("Mill") < markdown.index("Farm") < markdown.index("Yard") < markdown.index("</table>")
    assert markdown.rstrip().endswith("after")
    assert convert(whole, "html").decode().count("<table") == 1
    (sheet,) = openpyxl.load_workbook(io.BytesIO(convert(whole, "xlsx"))).worksheets
    assert [[cell.value for cell in line] for line in sheet.rows] == ROWS
    (found,) = docx.Document(io.BytesIO(convert(whole, "docx"))).tables
    assert [[cell.text for cell in line.cells] for line in found.rows] == [
        [str(value) for value in line] for line in ROWS
    ]
    (chunk,) = (chunk for chunk in chunks(*CONTINUED) if chunk["kind"] == "table")
    assert len(chunk["text"].splitlines()) == 5 and chunk["pages"] == [1, 2, 3]
    assert json.loads(convert(whole, "json"))["layoutParsingResults"] == list(CONTINUED), "pages as they were parsed"


@pytest.mark.parametrize(
    ("numbers", "sheets"),
    [
        (None, ["Page 1 Table 1"]),
        ([3, 4, 5], ["Page 3 Table 1"]),
        ([3, 9, 10], ["Page 3 Table 1", "Page 9 Table 2"]),
        ([3, 4, 9], ["Page 3 Table 1", "Page 9 Table 2"]),
    ],
)
def test_tables_go_on_only_on_the_next_page(numbers: list[int] | None, sheets: list[str]):
    whole = dataclasses.replace(document(*CONTINUED), numbers=numbers)
    assert openpyxl.load_workbook(io.BytesIO(convert(whole, "xlsx"))).sheetnames == sheets
    for format in ("md", "html"):
        assert convert(whole, format).decode().count("<table") == len(sheets)
    lines = convert(whole, "chunks").decode().splitlines()
    assert sum(json.loads(line)["kind"] == "table" for line in lines) == len(sheets)
    assert as_docling(whole)["md_content"].count("<table") == len(sheets)


def as_docling(whole: ResultDocument) -> dict[str, Any]:
    answer = {"result": {**whole.result, "docparser": {"partial": False, "pages": []}}}
    args = {"name": "wells.pdf", "numbers": whole.numbers, "formats": ["md", "json"], "embed": False, "seconds": 1.0}
    with io.BytesIO() as sink:
        docling.convert_answer(args, io.BytesIO(json.dumps(answer).encode()), sink)
        return json.loads(sink.getvalue())["document"]


def test_a_title_that_is_printed_again_is_none_for_docling():
    pages = [page(("doc_title", "Annual Report 2024"), ("paragraph_title", "1 Wells"), ("text", "dry")) for _ in "ab"]
    labels = [item["label"] for item in as_docling(document(*pages))["json_content"]["texts"]]
    assert labels == ["title", "section_header", "text", "text", "section_header", "text"]


def test_only_a_header_is_left_out_where_it_is_printed_again():
    same = row("0", "0")
    both = document(page(("table", table(HEAD, same))), page(("table", table(HEAD, same))))
    assert convert(both, "md").decode().count("<td>0</td>") == 4, "rows below it that are alike stay"
    blank = row("", "")
    both = document(page(("table", table(blank, same))), page(("table", table(blank, row("1", "1")))))
    assert convert(both, "md").decode().count("<td></td>") == 4


SIDE = "".join(f"<tr><th>{name}</th><td>1</td></tr>" for name in ("a", "b"))
TWO = '<tr><td rowspan="2">Day</td><td colspan="2">Hours</td></tr>' + row("In", "Out")
GROUP = '<tr><td rowspan="2">North</td><td>1</td></tr>' + row("2")


@pytest.mark.parametrize(
    ("first", "second", "repeated"),
    [
        (HEAD + row("a", "b"), HEAD + row("c", "d"), 1),
        (HEAD + row("a", "b"), row("c", "d"), 0),
        (HEAD + row("a", "b"), HEAD, 0),  # one row at least stays
        (HEAD + row("a", "b"), HEAD + row("a", "b"), 1),  # only the header is repeated
        (row("x", "y") + row("a", "b"), row("x", "y") + row("a", "b") + row("c", "d"), 1),  # no header is known
        (row("", "") + row("a", "b"), row("", "") + row("c", "d"), 0),
        (HEAD + row("a", "b"), row("a", "b", "c"), None),
        (HEAD + row("a", "b"), "", None),
        (HEAD + row("a", "b"), "<tr><th>Town</th><th>People</th></tr>" + row("c", "d"), None),  # a header of its own
        (row("a", "b"), HEAD + row("c", "d"), None),
        (row("Well", "March") + row("a", "b"), HEAD + row("c", "d"), 1),  # found on one page only
        (HEAD + SIDE, HEAD + SIDE, 1),  # headers of rows are no header
        (TWO + row("a", "b", "c"), TWO + row("a", "b", "d"), 2),
        (TWO + row("a", "b", "c"), TWO.replace("Out", "Off") + row("a", "b", "d"), 0),  # half of it cannot go
        (GROUP, GROUP, 0),
    ],
)
def test_how_many_rows_are_a_header_that_is_printed_again(first: str, second: str, repeated: int | None):
    (above,), below = read_tables(table(first)), read_tables(table(second))
    assert goes_on(above, below[0] if below else Table([])) == repeated


def test_tables_stay_apart_where_that_is_asked_for():
    whole, how = document(*CONTINUED), How(join_tables=False)
    assert convert(whole, "md", how).decode().count("<table") == 3
    assert len([chunk for chunk in chunks(*CONTINUED, join=False) if chunk["kind"] == "table"]) == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (table(HEAD, row("a", "b")), table(row("a", "b", "c"))),
        (table(HEAD, row("a", "b")) + "\n\nwords between", table(row("c", "d"))),
        (table(HEAD, row("a", "b")), "words between\n\n" + table(row("c", "d"))),
        (table(HEAD, row("a", "b")), "<table><tr><td>c<td>d"),
        (table(HEAD, row("a", "b")), table(row(table(row("inner", "x")), "d"))),
        ("", table(row("c", "d"))),
        ("</table>", table(row("c", "d"))),
    ],
)
def test_other_tables_stay_where_they_are(first, second):
    """Of the Markdown, whose page has no blocks; and where its tables are not those of the blocks."""
    whole = ResultDocument("d", [ResultPage(text, {}) for text in (first, second)], {})
    assert convert(whole, "md").decode() == f"{first.strip()}\n\n{second.strip()}\n"
    blocks = [("table", table(row("a", "b")))]
    whole = document(page(*blocks, markdown=first), page(*blocks, markdown=f"{second}\n\nmore"))
    assert convert(whole, "md").decode().startswith(f"{first.strip()}\n\n{second.strip()}")


def test_tables_of_pages_that_a_vlm_wrote_as_markdown_go_on():
    texts = [f"Wells\n\n{MILL}", f"{FARM}\n\nafter", YARD]
    whole = ResultDocument("d", [ResultPage(text, {}) for text in texts], {})
    assert convert(whole, "md").decode().count("<table") == convert(whole, "html").decode().count("<table") == 2
    entries = [page(("text", text)) for text in (texts[0], FARM, YARD)]
    for entry in entries:
        entry["prunedResult"]["model_settings"] = {"prompt_label": "document"}
    assert [convert(document(*entries), format).decode().count("<table") for format in ("md", "html")] == [1, 1]


DAYS = [row(day, "8") for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")]
WEEK = table(row("Day", "Hours"), *DAYS, row("Total", "40"))


@pytest.mark.parametrize("heads", [0, 1])
def test_rows_that_two_pages_have_alike_are_no_header(heads: int):
    """Headers are found by their print, so an evenly ruled form has none."""
    entries = [page(("table", WEEK)) for _ in "ab"]
    for entry in entries:
        entry["tableHeads"] = [{"block_id": 0, "rows": heads}] if heads else []
    whole = document(*entries)
    for format in ("md", "html"):
        text = convert(whole, format).decode()
        assert (text.count("<table"), text.count("Day<"), text.count("Monday<")) == (1, 1, 2)
    (sheet,) = openpyxl.load_workbook(io.BytesIO(convert(whole, "xlsx"))).worksheets
    assert [cell.value for cell in sheet["A"]].count("Monday") == 2 and sheet.max_row == 13
    (chunk,) = chunks(*entries)
    assert chunk["text"].count("Monday") == 2 and chunk["text"].count("Day ") == 1


def test_tables_with_headers_of_their_own_stay_apart():
    entries = [page(("table", table(row(*head), row("a", "1")))) for head in (("Name", "Age"), ("City", "People"))]
    for entry in entries:
        entry["tableHeads"] = [{"block_id": 0, "rows": 1}]
    whole = document(*entries)
    assert convert(whole, "md").decode().count("<table") == convert(whole, "html").decode().count("<table") == 2
    assert 'scope="row"' not in convert(whole, "html").decode() and len(chunks(*entries)) == 2


def test_letters_that_are_two_as_small_ones_move_no_rows():
    """A Turkish capital I with a dot is two characters as a small letter."""
    entry = page(("text", "\u0130" * 40), ("table", MILL))
    assert convert(document(entry, page(("table", YARD))), "md").decode().count("<table") == 1


def test_pictures_in_the_same_place_of_two_pages_are_two():
    """PaddleOCR#18305: they have one name, so the archive had one of them."""
    import zipfile

    pages = [page(("text", "x"), markdown='<img src="imgs/a.jpg">') for _ in range(2)]
    for entry, data in zip(pages, ("MTEx", "MjIy"), strict=True):
        entry["markdown"]["images"] = {"imgs/a.jpg": data}
    archive = zipfile.ZipFile(io.BytesIO(convert(document(*pages), "zip")))
    assert archive.read("imgs/a.jpg") == b"111" and archive.read("imgs/page_0002_a.jpg") == b"222"
    assert archive.read("wells.md").decode().count("imgs/page_0002_a.jpg") == 1


def test_pages_of_tests_data_in_every_format_that_needs_no_document():
    pages = []
    for told in json.loads((DATA / "handbook.json").read_text())["pages"]:
        pages.append(page(*((block["label"], block["text"]) for block in told["blocks"])))
    whole = document(*pages)
    formats: tuple[Format, ...] = get_args(Format)
    assert set(formats) == set(FORMATS) and all(convert(whole, format) for format in formats if format != "pdf")
    found = chunks(*pages)
    assert found[0]["headings"][0] == "Opening the Bakery" and {1, 2, 3} == {
        n for chunk in found for n in chunk["pages"]
    }
