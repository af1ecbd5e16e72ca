# SPDX-License-Identifier: Apache-2.0
"""Documents set by LibreOffice Writer."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

from . import web
from .blocks import PLAIN, Form, SetDocument, TextBlock, document
from .prose import Text

FACES = ("Carlito", "Carlito", "Liberation Serif", "Liberation Sans", "DejaVu Sans", "DejaVu Serif", "Caladea")


def page(rng: random.Random, prose: Text, pages: int, form: Form = PLAIN) -> tuple[str, list[TextBlock]]:
    """HTML and blocks of a document of about ``pages`` pages, in what Writer reads of CSS."""
    size, face = rng.choice((10, 10, 10.5, 11, 11, 12, 14)), rng.choice(FACES)
    width, height = form.millimetres
    style = f"""
    @page {{ size: {width / 10:g}cm {height / 10:g}cm; margin: {rng.choice((1.5, 2, 2.5))}cm }}
    p, li {{ font-family: "{face}"; font-size: {size}pt; line-height: {rng.choice((100, 100, 115, 150))}%;
             text-align: {rng.choice(("left", "left", "justify"))}; margin-bottom: {rng.choice((0.1, 0.25))}cm }}
    h1, h2, h3, h4 {{ font-family: "{rng.choice((face, rng.choice(FACES)))}" }}
    pre, code {{ font-family: "Liberation Mono" }}
    pre {{ font-size: {rng.choice((9, 10))}pt }}"""
    blocks = document(rng, prose, round(form.characters(pages) * (10.5 / size) ** 2), form)
    return (
        f"<html lang=en><head><meta charset=utf-8><style>{style}</style></head><body>{web.body(rng, blocks)}</body>",
        blocks,
    )


def typeset(rng: random.Random, prose: Text, folder: Path, pages: int = 12, form: Form = PLAIN) -> SetDocument:
    """Set a document in ``folder``; raises FileNotFoundError without LibreOffice."""
    if not shutil.which("soffice"):
        raise FileNotFoundError("soffice is missing; install it with: apt-get install libreoffice-writer-nogui")
    source = folder / "page.html"
    markup, blocks = page(rng, prose, pages, form)
    source.write_text(markup, encoding="utf-8")
    command = ["soffice", "--headless", f"-env:UserInstallation=file://{folder / 'profile'}"]
    command += [
        "--infilter=HTML (StarWriter)",
        "--convert-to",
        "pdf:writer_pdf_Export",
        "--outdir",
        str(folder),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    return SetDocument(folder / "page.pdf", blocks)
