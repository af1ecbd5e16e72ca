# SPDX-License-Identifier: Apache-2.0
"""The four documents and the note of tests/images, each from its entry in tests/data/pages.yaml."""

from __future__ import annotations

from ..pages.page import Page
from ..pages.tables import RULES, set_table
from .figures import bars, loaf
from .sheet import ACCENT, GREY, HEIGHT, INK, WIDTH, Sheet, face


def draw_report(text: dict) -> list[Page]:
    serif, sans_bold = face("Liberation Serif"), face("Liberation Sans", True)
    sheet = Sheet(serif, sans_bold, 27, 96, WIDTH - 96)
    small = face("Liberation Sans")
    sheet.y = 62
    sheet.put("header", [text["header"]], size=20, face=small, ink=GREY)
    sheet.y = 62
    sheet.put("number", [text["number"]], size=20, face=small, align="right", ink=GREY)
    sheet.rule(96)
    sheet.y = 150
    sheet.put("doc_title", [text["title"]], size=56, face=sans_bold, gap=0.42, ink=ACCENT)
    sheet.put("text", [text["byline"]], size=30, face=serif, gap=1.4, ink=(60, 60, 66))
    top, gutter = sheet.y, 48
    middle = WIDTH // 2
    for left, right, blocks in (
        (96, middle - gutter // 2, text["left"]),
        (middle + gutter // 2, WIDTH - 96, text["right"]),
    ):
        sheet.left, sheet.right, sheet.y = left, right, top
        for number, block in enumerate(blocks):
            if "heading" in block:
                if number == 0:
                    sheet.y -= 0.35 * sheet.size
                sheet.heading(block["heading"], 1.18)
            elif "figure" in block:
                sheet.picture(bars(right - left, 300), "chart")
            else:
                sheet.text(block["text"], justify=True)
    sheet.left, sheet.right, sheet.y = 96, WIDTH - 96, HEIGHT - 92
    sheet.put("footer", [text["footer"]], size=20, face=small, align="center", ink=GREY)
    return [sheet.page]


def draw_invoice(text: dict) -> list[Page]:
    sans, bold = face("Liberation Sans"), face("Liberation Sans", True)
    sheet = Sheet(sans, bold, 26, 110, WIDTH - 110)
    sheet.y = 120
    sheet.put("doc_title", [text["title"]], size=64, face=bold, gap=0.9, ink=ACCENT)
    top = sheet.y
    sheet.put("text", text["from"], gap=1.5)
    below = sheet.y
    sheet.left, sheet.y = 720, top
    sheet.put("text", text["to"], gap=1.5)
    sheet.left, sheet.y = 110, max(below, sheet.y)
    sheet.put("text", text["details"], gap=1.6)
    rows = text["table"]
    set_table(
        sheet.page,
        rows,
        (sans, bold),
        25,
        110,
        round(sheet.y),
        WIDTH - 220,
        RULES["shaded grid"],
        INK,
        row_height=54,
        shares=[2.4, 1, 1, 1],
        right_columns=frozenset({1, 2, 3}),
    )
    sheet.y += 54 * len(rows) + 44
    sheet.put("text", text["totals"], align="right", gap=1.6)
    sheet.heading(text["terms_heading"])
    for paragraph in text["terms"]:
        sheet.text(paragraph)
    sheet.y = HEIGHT - 96
    sheet.rule(HEIGHT - 116)
    sheet.put("footer", [text["footer"]], size=20, ink=GREY)
    return [sheet.page]


def draw_letter(text: dict) -> list[Page]:
    sheet = Sheet(face("DejaVu Sans"), face("DejaVu Sans", True), 24, 150, WIDTH - 150)
    sheet.y = 150
    sheet.put("text", text["sender"], gap=2.2)
    sheet.put("text", [text["date"]], gap=2.2)
    sheet.put("text", text["recipient"], gap=2.2)
    sheet.heading(text["subject"], 1.1)
    sheet.y += 12
    for paragraph in text["paragraphs"]:
        sheet.text(paragraph, gap=0.95, pitch=1.42)
    sheet.y += 12
    sheet.put("text", [text["closing"]], gap=3.2)
    sheet.put("text", [text["name"]])
    return [sheet.page]


def draw_note(text: dict) -> list[Page]:
    """A page of two blocks, for tests that ask for many pages and need little of each."""
    sheet = Sheet(face("DejaVu Sans"), face("DejaVu Sans", True), 24, 150, WIDTH - 150)
    sheet.y = 150
    sheet.heading(text["subject"], 1.1)
    sheet.y += 12
    sheet.text(text["paragraph"])
    return [sheet.page]


def draw_handbook(pages: list[dict]) -> list[Page]:
    drawn = []
    for text in pages:
        sheet = Sheet(face("Liberation Sans"), face("Liberation Sans", True), 32, 130, WIDTH - 130)
        sheet.y = 64
        sheet.put("header", [text["header"]], size=22, ink=GREY)
        sheet.y = 170
        if "title" in text:
            sheet.put("doc_title", [text["title"]], size=68, face=sheet.head, gap=0.7, ink=ACCENT)
        for block in text["blocks"]:
            if "heading" in block:
                sheet.heading(block["heading"], 1.25)
            elif "figure" in block:
                sheet.picture(loaf(620, 330), "image")
            else:
                sheet.text(block["text"], gap=0.8)
        sheet.y = HEIGHT - 100
        sheet.put("number", [text["number"]], size=24, align="center", ink=GREY)
        drawn.append(sheet.page)
    return drawn
