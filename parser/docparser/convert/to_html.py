# SPDX-License-Identifier: Apache-2.0
"""Pages as HTML. A stranger may have written what is in it, so only listed elements and attributes are kept."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import nh3

from docparser.convert.document import ResultDocument, ResultPage
from docparser.convert.formulas import Formulas
from docparser.convert.parts import CAPTIONS, PICTURE, Part, markdown_html
from docparser.html_tables import Cell, Table
from docparser.places.atoms import has_right_to_left

TEXT_TAGS = set(
    "a abbr b blockquote br caption code col colgroup dd del div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i img "
    "ins li ol p pre s small span strong sub sup table tbody td tfoot th thead tr u ul".split()
)
MATHML_TAGS = set(
    "math mfrac mi mn mo mover mpadded mphantom mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext "
    "mtr munder munderover menclose".split()
)
ATTRIBUTES = {
    "*": {"dir"},
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width"},
    "li": {"value"},
    "td": {"colspan", "rowspan", "style"},
    "th": {"colspan", "rowspan", "scope", "style"},
    "div": {"style"},
    "p": {"style"},
    "math": {"display"},
    "mo": {"stretchy", "fence", "separator", "form", "largeop", "movablelimits"},
    "mspace": {"width"},
    "mtable": {"displaystyle"},
    "mtd": {"columnalign"},
    "mi": {"mathvariant"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mover": {"accent"},
    "munder": {"accentunder"},
    "mfrac": {"linethickness"},
}

BLOCKS = re.compile(r"(<(?:p|h[1-6]|div|pre|blockquote|li|d[dt]|t[dh]|caption|figcaption)\b)", re.IGNORECASE)

# Firefox lines formulas up by `columnalign`, Chromium by no other alignments than -webkit-...
STYLE = """
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.6 system-ui, sans-serif; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
td, th { border: 1px solid #8888; padding: .3rem .6rem; vertical-align: top; }
img { max-width: 100%; } pre { font: inherit; white-space: pre-wrap; } math[display="block"] { margin: 1rem 0; }
mtd[columnalign="left"] { text-align: left; text-align: -webkit-left; }
mtd[columnalign="right"] { text-align: right; text-align: -webkit-right; padding-right: 0; }
hr.page { border: 0; border-top: 1px dashed #8888; margin: 2rem 0; }
"""
BEFORE = """<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
"""
PAGE_RULE = '\n<hr class="page">\n'
AFTER = "\n</body>\n</html>\n"


def pieces(document: ResultDocument) -> Iterator[str]:
    """One HTML file that needs nothing else: pictures are inside, formulas are MathML, nothing is executable."""
    yield BEFORE.format(title=html.escape(document.stem), style=STYLE)
    for number, page in enumerate(document.pages):
        yield (PAGE_RULE if number else "") + page_html(page)
    yield AFTER


def page_html(page: ResultPage) -> str:
    formulas = Formulas()
    rendered = formulas.put_back_mathml(_directed(body(page, formulas)))

    def keep(tag: str, attribute: str, value: str) -> str | None:
        if tag == "img" and attribute == "src" and value not in page.pictures:
            return None  # fetching a picture from elsewhere would tell its owner who reads this
        if attribute == "dir" and value != "auto":
            return None  # a model's
        return value

    clean = nh3.clean(
        rendered,
        tags=TEXT_TAGS | MATHML_TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=keep,
        strip_comments=True,
        url_schemes={"http", "https", "mailto"},
        filter_style_properties={"text-align"},
        link_rel="noopener noreferrer",
    )
    return re.sub(r'(<img[^>]*? src=")([^"]*)(")', lambda match: _inside(match, page), clean)


def _directed(unsafe: str) -> str:
    """Blocks and cells with a letter from right to left take their direction from the first one that they have."""
    before, *blocks = BLOCKS.split(unsafe)
    return before + "".join(
        tag + (' dir="auto"' if has_right_to_left(rest) else "") + rest
        for tag, rest in zip(blocks[::2], blocks[1::2], strict=True)
    )


def _inside(match: re.Match, page: ResultPage) -> str:
    """The tag with the picture in place of its path."""
    path = html.unescape(match[2])
    if path not in page.pictures:
        return match[1] + match[3]
    return match[1] + page.data_url(path) + match[3]


def body(page: ResultPage, formulas: Formulas) -> str:
    """The page in HTML that is not sanitised, with marks in place of formulas."""
    return "\n".join(_part(part, formulas) for part in page.parts)


def _part(part: Part, formulas: Formulas) -> str:
    if part.exact:
        formulas = Formulas(exact=True)
    if part.markdown:
        return markdown_html(formulas.take_out(part.text))
    if part.table is not None:
        return table_html(part.table, formulas)
    if part.picture:
        return picture_html(part)
    lines = [line.strip() for line in _text(part.text, formulas).split("\n") if line.strip()]
    if part.level:
        return f"<h{part.level}>{' '.join(lines)}</h{part.level}>"
    if part.label in CAPTIONS:
        return f'<div style="text-align: center;">{" ".join(lines)}</div>'
    if part.label == "content":  # a table of contents
        return f"<p>{'<br>'.join(lines)}</p>"
    if part.label == "algorithm":
        return f"<pre>{_text(part.text, formulas)}</pre>"
    return "\n".join(f"<p>{line}</p>" for line in lines)


def _text(text: str, formulas: Formulas) -> str:
    """``text`` as it is, whatever signs are in it; only formulas are more."""
    return html.escape(formulas.take_out(text), quote=False)


def picture_html(part: Part) -> str:
    width = f' width="{part.share}%"' if part.share else ""
    return f'<div style="text-align: center;"><img src="{html.escape(part.picture)}" alt="Image"{width}></div>'


def table_html(table: Table, formulas: Formulas) -> str:
    """With marks in place of formulas; without empty lines, which would end it in Markdown."""
    rows: list[list[str]] = [[] for _ in range(table.height)]
    head = table.head
    for cell in table.cells:
        rows[cell.row].append(_cell(cell, head, formulas))
    return f"<table>{''.join(f'<tr>{chr(10).join(row)}</tr>' for row in rows)}</table>"


def _cell(cell: Cell, head: int, formulas: Formulas) -> str:
    """``head``: rows of headers, which name columns; below them a header names its row. Without words it names none."""
    covers = {"rowspan": cell.rows, "colspan": cell.columns}
    spans = "".join(f' {name}="{count}"' for name, count in covers.items() if count > 1)
    text = _text(cell.text, formulas).replace("\n", "<br>")
    text = PICTURE.sub(lambda match: f'<img src="{html.escape(html.unescape(match[1]))}" alt="Image">', text)
    if not cell.header or not cell.text:
        return f"<td{spans}>{text}</td>"
    scope, several = ("col", cell.columns) if cell.row < head else ("row", cell.rows)
    group = "group" if several > 1 else ""
    return f'<th scope="{scope}{group}"{spans}>{text}</th>'
