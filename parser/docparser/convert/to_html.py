# SPDX-License-Identifier: Apache-2.0
"""The Markdown of pages as HTML. A stranger may have written it, so only listed elements and attributes are kept."""

from __future__ import annotations

import dataclasses
import html
import mimetypes
import re
from collections.abc import Iterator

import nh3
from markdown_it import MarkdownIt

from docparser.convert.document import ResultDocument, ResultPage
from docparser.convert.formulas import Formulas
from docparser.convert.html_tables import Table, read_tables

TEXT_TAGS = set(
    "a abbr b blockquote br caption code col colgroup dd del div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i img "
    "ins li ol p pre s small span strong sub sup table tbody td tfoot th thead tr u ul".split()
)
MATHML_TAGS = set(
    "math mfrac mi mn mo mover mpadded mphantom mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext "
    "mtr munder munderover menclose".split()
)
ATTRIBUTES = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title"},
    "td": {"colspan", "rowspan", "style"},
    "th": {"colspan", "rowspan", "style"},
    "div": {"style"},
    "p": {"style"},
    "math": {"display"},
    "mo": {"stretchy", "fence", "separator", "form", "largeop", "movablelimits"},
    "mspace": {"width"},
    "mtable": {"columnalign"},
    "mi": {"mathvariant"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mover": {"accent"},
    "munder": {"accentunder"},
    "mfrac": {"linethickness"},
}

STYLE = """
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.6 system-ui, sans-serif; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
td, th { border: 1px solid #8888; padding: .3rem .6rem; vertical-align: top; }
img { max-width: 100%; } pre { overflow-x: auto; } math[display="block"] { margin: 1rem 0; }
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
    rendered = formulas.put_back_mathml(markdown_html(formulas.take_out(page.text)))

    def keep(tag: str, attribute: str, value: str) -> str | None:
        if tag == "img" and attribute == "src" and value not in page.pictures:
            return None  # fetching a picture from elsewhere would tell its owner who reads this
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


def _inside(match: re.Match, page: ResultPage) -> str:
    """The tag with the picture in place of its path."""
    path = html.unescape(match[2])
    if path not in page.pictures:
        return match[1] + match[3]
    kind = mimetypes.guess_type(path)[0] or "image/jpeg"
    return f"{match[1]}data:{kind};base64,{page.picture_base64(path)}{match[3]}"


def markdown_html(text: str) -> str:
    """HTML that is not sanitised: tables are HTML in the Markdown, so HTML passes here."""
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


def find_tables(text: str) -> list[Table]:
    """Every table in ``text`` in order; formulas in cells stand as LaTeX without their dollar signs."""
    formulas = Formulas()
    return [
        Table([dataclasses.replace(cell, text=formulas.put_back_latex(cell.text)) for cell in table.cells])
        for table in read_tables(markdown_html(formulas.take_out(text)))
    ]
