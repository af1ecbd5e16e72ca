# SPDX-License-Identifier: Apache-2.0
"""Documents set by pdfTeX: Computer Modern, Latin Modern and TeX Gyre; justified, hyphenated, with ligatures."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .blocks import PLAIN, Form, SetDocument, TextBlock, document, spans
from .prose import Text

FACES = {
    "": 3,  # Computer Modern
    r"\usepackage{lmodern}": 6,
    r"\usepackage{lmodern}\renewcommand{\familydefault}{\sfdefault}": 1,
    r"\usepackage{tgtermes}": 2,
    r"\usepackage{tgpagella}": 2,
    r"\usepackage{tgschola}": 1,
    r"\usepackage{tgbonum}": 1,
    r"\usepackage{tgheros}\renewcommand{\familydefault}{\sfdefault}": 2,
}
NARROW, MIDDLE, WIDE = 30, 36, 70  # characters of a line of code that fit into one of two columns, A5 and A4
STYLES = {"": "%s", "emph": r"\emph{%s}", "strong": r"\textbf{%s}", "code": r"\texttt{%s}"}
SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    '"': r"\textquotedbl{}",
    "'": r"'",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "-": r"-{}",  # two hyphens stay two
    "`": r"\textasciigrave{}",
} | {character: "\\" + character for character in "#$%&_{}"}


def escaped(text: str) -> str:
    return re.sub(r"[\\~^\"'<>|`#$%&_{}-]", lambda found: SPECIAL[found[0]], text)


def source(rng: random.Random, prose: Text, pages: int, form: Form = PLAIN) -> tuple[str, list[TextBlock]]:
    """The LaTeX and the blocks of a document of about ``pages`` pages.

    Computer Modern is set in TeX's old encoding: in the new one it would need outlines that Debian keeps apart.
    """
    size = rng.choice((10, 10, 11, 11, 12))
    face = rng.choices(list(FACES), list(FACES.values()))[0]
    columns = rng.random() < 0.2 and form.paper == "A4"
    side = rng.choice((18, 22, 30, 38))
    skip, indent = rng.choice((0, 0, 4, 8)), rng.choice((0, 12, 18))
    head = [
        rf"\documentclass[{form.paper.lower()}paper,{size}pt{',twocolumn' if columns else ''}]{{article}}",
        rf"\usepackage[left={side}mm,right={side}mm,top=22mm,bottom=24mm]{{geometry}}",
        r"\usepackage[T1]{fontenc}" if face else r"\DeclareTextCommand{\textquotedbl}{OT1}{''}",
        r"\usepackage{textcomp}",
        face,
        r"\usepackage{tgcursor}" if face and rng.random() < 0.35 else "",
        r"\usepackage[expansion=false]{microtype}" if rng.random() < 0.3 else "",
        r"\input{glyphtounicode}\pdfgentounicode=1",
        rf"\setlength{{\parskip}}{{{skip}pt}}\setlength{{\parindent}}{{{indent}pt}}",
        rf"\linespread{{{rng.choice((1.0, 1.0, 1.0, 1.1, 1.25))}}}",
        rf"\pagestyle{{{rng.choice(('plain', 'empty'))}}}",
        rf"\setcounter{{secnumdepth}}{{{rng.choice((0, 3))}}}",
        r"\sloppy",
        r"\begin{document}",
        r"\raggedright" if rng.random() < 0.15 else "",
    ]
    blocks = document(rng, prose, form.characters(pages), form)
    # Lines of code are not broken by TeX: in two columns long ones would be printed over the other column.
    body = [_block(rng, block, NARROW if columns else WIDE if form.paper == "A4" else MIDDLE) for block in blocks]
    return "\n".join([*head, *body, r"\end{document}", ""]), blocks


def _broken(lines: Sequence[str], width: int) -> list[str]:
    """Lines of at most ``width`` characters."""
    return [line[first : first + width] for line in lines for first in range(0, max(len(line), 1), width)]


def _inline(rng: random.Random, text: str, term: str) -> str:
    return " ".join(STYLES[style] % escaped(piece) for style, piece in spans(rng, text, term))


def _block(rng: random.Random, block: TextBlock, width: int) -> str:
    if block.kind == "document_title":
        place, size = rng.choice(("center", "flushleft")), rng.choice((r"\LARGE", r"\huge", r"\Huge"))
        face = rng.choice(("", r"\bfseries", r"\sffamily\bfseries"))
        return rf"\begin{{{place}}}{size}{face} {escaped(block.parts[0])}\end{{{place}}}" + "\n"
    if block.kind == "title":
        return rf"\{rng.choice(('section', 'subsection', 'subsubsection', 'paragraph'))}{{{escaped(block.parts[0])}}}"
    if block.kind == "code":
        size = rng.choice((r"\small", r"\footnotesize", r"\normalsize"))
        return (
            rf"{{{size}\begin{{verbatim}}" + "\n" + "\n".join(_broken(block.parts, width)) + "\n" + r"\end{verbatim}}"
        )
    if block.kind in ("items", "numbered"):
        name = "itemize" if block.kind == "items" else "enumerate"
        items = "\n".join(rf"\item {_inline(rng, part, block.term)}" for part in block.parts)
        return rf"\begin{{{name}}}" + "\n" + items + "\n" + rf"\end{{{name}}}"
    text = "\n\n".join(_inline(rng, part, block.term) for part in block.parts)
    if block.kind == "quote":
        return rf"\begin{{quote}}{rng.choice(('', chr(92) + 'small ', chr(92) + 'itshape '))}" + text + r"\end{quote}"
    return text + "\n"


def typeset(rng: random.Random, prose: Text, folder: Path, pages: int = 12, form: Form = PLAIN) -> SetDocument:
    """Set a document in ``folder``; raises FileNotFoundError without TeX."""
    if not shutil.which("pdflatex"):
        raise FileNotFoundError(
            "pdflatex is missing; install it with: apt-get install texlive-latex-recommended texlive-fonts-recommended "
            "lmodern tex-gyre"
        )
    latex, blocks = source(rng, prose, pages, form)
    (folder / "page.tex").write_text(latex, encoding="ascii")
    command = ["pdflatex", "-interaction=nonstopmode", "-no-shell-escape", "page.tex"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=120)  # 1 for a box too full
    if not (folder / "page.pdf").exists():
        raise RuntimeError(f"pdflatex made no PDF; its last words: {done.stdout[-1000:].decode(errors='replace')}")
    return SetDocument(folder / "page.pdf", blocks)
