# SPDX-License-Identifier: Apache-2.0
"""Documents printed by Chromium, in the faces of Debian's packages."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

from . import web
from .blocks import PLAIN, Form, SetDocument, TextBlock, document
from .prose import Text

FACES = (
    "DejaVu Sans",
    "DejaVu Serif",
    "Liberation Sans",
    "Liberation Serif",
    "Noto Sans",
    "Noto Serif",
    "Roboto",
    "Open Sans",
    "Lato",
    "Carlito",
    "Caladea",
    "CMU Serif",
    "TeX Gyre Termes",
    "TeX Gyre Pagella",
)
MONO = ("DejaVu Sans Mono", "Liberation Mono", "Inconsolata", "Hack", "TeX Gyre Cursor", "CMU Typewriter Text")


def page(rng: random.Random, prose: Text, pages: int, form: Form = PLAIN) -> tuple[str, list[TextBlock]]:
    """HTML and blocks of a document of about ``pages`` pages."""
    size = rng.choice((7.5, 8, 9, 10, 10.5, 11, 12, 13, 15, 18))  # pt
    columns = 2 if size <= 11 and rng.random() < 0.25 else 1
    style = f"""
    @page {{ size: {form.paper}; margin: {rng.choice((14, 18, 25, 32))}mm }}
    body {{ font: {size}pt/{rng.choice((1.15, 1.25, 1.4, 1.6))} "{rng.choice(FACES)}"; columns: {columns};
            text-align: {rng.choice(("left", "left", "justify"))}; hyphens: {rng.choice(("manual", "auto"))};
            color: {rng.choice(("#000", "#000", "#222", "#333", "#112"))} }}
    pre, code {{ font-family: "{rng.choice(MONO)}"; font-size: {rng.choice((80, 90, 100))}% }}
    h1, h2, h3, h4 {{ font-family: "{rng.choice(FACES)}" }}
    pre {{ {rng.choice(("", "background: #f4f4f4; padding: 6pt", "border: 1px solid #ccc; padding: 4pt"))};
           white-space: pre-wrap }}"""
    blocks = document(rng, prose, round(form.characters(pages) * (10.5 / size) ** 2), form)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><style>{style}</style>{web.body(rng, blocks)}</html>",
        blocks,
    )


def find_chromium() -> str:
    """The program of Debian's or Ubuntu's package; raises FileNotFoundError without one."""
    names = ("chromium", "chromium-browser", "chromium-headless-shell")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if not chromium:
        raise FileNotFoundError("chromium is missing; install it with: apt-get install chromium")
    return chromium


def typeset(rng: random.Random, prose: Text, folder: Path, pages: int = 12, form: Form = PLAIN) -> SetDocument:
    """Print a document in ``folder``; raises FileNotFoundError without Chromium."""
    source, printed = folder / "page.html", folder / "page.pdf"
    markup, blocks = page(rng, prose, pages, form)
    source.write_text(markup, encoding="utf-8")
    command = [find_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    command += [f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={printed}", str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    return SetDocument(printed, blocks)
