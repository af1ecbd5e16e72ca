# SPDX-License-Identifier: Apache-2.0
"""Markdown of pages as HTML and as an archive: nothing that runs, nothing that a browser would fetch."""

from __future__ import annotations

import base64
import io
import zipfile
from html.parser import HTMLParser

from docparser.convert import to_html
from docparser.convert.document import ResultDocument, ResultPage
from docparser.convert.names import disposition
from tests.fuzz.choices import Choices
from tests.fuzz.targets import formulas, tables
from tests.fuzz.verdict import Broken
from tests.support.converted import convert

WORDS = (
    *("# ", "- ", "1. ", "> ", "```\n", "`", "**", "_", "~~", "| a | b |\n|---|---|\n| 1 | 2 |\n", "\n\n", "\n"),
    *("    ", "[a](javascript:alert(1))", "![a](https://evil.example/x.png)", "[x]: data:text/html,"),
    *("![](imgs/a.jpg)", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '<img src="imgs/a.jpg">'),
    *("<svg onload=alert(1)>", "<style>@import 'https://evil.example/a.css';</style>"),
    *("<link rel=stylesheet href=//evil.example>", "<base href=//e>"),
    *('<meta http-equiv="refresh" content="0;url=https://evil.example">', "<form action=//e><input>"),
    *("<iframe src=//e>", '<math><maction actiontype="statusline" xlink:href="javascript:alert(1)">'),
    *("<mglyph src=//e>", "<!--", "-->", "]]>", '<p style="background:url(https://evil.example/a)">'),
    *('<div align="center" style="text-align: center;">', "&#x6a;", '<a href="&#106;avascript:alert(1)">'),
    *("<a href='vbscript:x'>", "<details open ontoggle=alert(1)>", "<template>", '" src="https://evil.example/q'),
    *("' onclick='alert(1)", '<noscript><p title="</noscript><img src=x>">', "<plaintext>", *formulas.WORDS[:16]),
    *tables.WORDS[:12],
)
# Elements that load, run, send or navigate by themselves.
FORBIDDEN = frozenset(
    "script style link meta base iframe frame object embed applet form input button svg video audio source track "
    "template noscript portal mglyph maction annotation-xml".split()
)
PICTURE = base64.b64encode(b"\xff\xd8\xff picture").decode()


class _Reader(HTMLParser):
    """Raises Broken for what a browser would run or fetch."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in FORBIDDEN:
            raise Broken(f"an element <{tag}> is in the HTML")
        for name, value in attrs:
            if name.startswith("on"):
                raise Broken("an event handler is in the HTML")
            text = (value or "").strip().lower()
            if name in ("src", "srcset", "background", "poster", "data", "action", "formaction") and text:
                if not text.startswith("data:image/"):
                    raise Broken(f"{name} of the HTML names something to fetch")
            elif name in ("href", "xlink:href") and ":" in text.partition("/")[0]:
                if text.partition(":")[0] not in ("http", "https", "mailto"):
                    raise Broken("a link of the HTML has a scheme that runs")
            elif name == "style" and text.replace(" ", "").rstrip(";").split(":")[0] not in ("text-align", ""):
                raise Broken("a style of the HTML does more than to align")


def target(data: bytes) -> None:
    choices = Choices(data)
    pages = [page_of(choices) for _ in range(1 + choices.below(2))]
    entries: list[dict] = [{"markdown": {"text": page.text, "images": dict(page.pictures)}} for page in pages]
    for entry in entries:
        if choices.chance(2):
            entry["prunedResult"] = pruned_of(choices)
    document = ResultDocument.from_answer(choices.text(longest=60), {"layoutParsingResults": entries})
    written = "".join(to_html.pieces(document))
    reader = _Reader()
    # The head is ours: what is judged is the body.
    reader.feed(written.partition("<body>")[2])
    reader.close()
    if choices.chance(4):
        check_archive(document)


def page_of(choices: Choices) -> ResultPage:
    names = ("imgs/a.jpg", "imgs/b.png", choices.text(longest=30))
    return ResultPage(choices.text(WORDS), {choices.one(names): PICTURE for _ in range(choices.below(3))})


def pruned_of(choices: Choices) -> dict:
    """Of a page whose blocks are hostile, of a VLM that writes Markdown or one that does not."""
    labels = ("text", "doc_title", "table", "chart", "image", "figure_title", "algorithm", "content", "display_formula")
    blocks = [
        {"block_label": choices.one(labels), "block_content": choices.text(WORDS), "block_bbox": [0, 0, 9, 9]}
        for _ in range(choices.below(4))
    ]
    settings = {"prompt_label": choices.one(("ocr", "document")), "format_block_content": choices.chance(2)}
    return {"parsing_res_list": blocks, "model_settings": settings}


def check_archive(document: ResultDocument) -> None:
    with zipfile.ZipFile(io.BytesIO(convert(document, "zip"))) as archive:
        names = archive.namelist()
    for name in names:
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or ":" in name or "\0" in name:
            raise Broken("an entry of the archive may leave its folder")
    value = disposition(document.stem, "zip")
    value.encode("latin-1")
    if "\n" in value or "\r" in value:
        raise Broken("a header has one line")


def seeds() -> list[bytes]:
    return [bytes([0, 20, 0, number]) + bytes(range(number, number + 50)) for number in range(0, 60, 6)]
