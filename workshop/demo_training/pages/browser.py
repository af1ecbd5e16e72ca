# SPDX-License-Identifier: Apache-2.0
"""Pages that a browser typeset, of prose that no one drew by lot: the licences that Debian keeps.

For measuring only. Chromium breaks the lines, kerns, justifies and fills the columns, so nothing of the pages of
training is in these but the typefaces. Needs ``chromium`` and the package ``base-files``, which every Debian has.
"""

from __future__ import annotations

import html
import json
import random
import re
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageChops

from ..typesetters.chromium import find_chromium
from .page import Block, Page

LICENCES = Path("/usr/share/common-licenses")
WIDTH, HEIGHT, GAP = 1240, 1754, 50  # px
SIZES = (24, 30, 36, 48)  # px of an em; two columns up to 36
FAMILIES = ("DejaVu Sans", "Liberation Sans", "Liberation Serif")
LABELS = {"H1": "doc_title", "H2": "paragraph_title", "P": "text"}
TITLES = (
    "The Work of the Year",
    "Notes on Free Software",
    "Annual Report 2024",
    "How to Apply These Terms",
    "Introduction",
    "Results and Discussion",
    "Water Quality in Rivers",
    "Terms and Conditions",
    "Summary of Findings",
    "A Short History",
)
# Blocks that do not fit go; what stays is measured, and written into the document that --dump-dom prints.
MEASURE = """<script>
const box = block => block.getBoundingClientRect();
const blocks = [...document.querySelectorAll("h1, h2, p")];
const fits = block => box(block).bottom <= %(bottom)d && box(block).right <= %(right)d;
while (blocks.length > 1 && (!fits(blocks.at(-1)) || blocks.at(-1).tagName === "H2")) blocks.pop().remove();
const measured = blocks.map(block => [block.tagName, block.textContent,
    [box(block).left, box(block).top, box(block).right, box(block).bottom]]);
const truth = document.createElement("script");
truth.type = "application/json";
truth.id = "truth";
truth.textContent = JSON.stringify(measured).replaceAll("<", "\\\\u003c");
document.body.append(truth);
</script>"""


@lru_cache(maxsize=None)
def paragraphs() -> tuple[str, ...]:
    """Paragraphs of 60 to 900 printable ASCII characters. Raises FileNotFoundError where there are none."""
    found: dict[str, None] = {}
    for path in sorted(LICENCES.glob("*")):
        for part in re.split(r"\n\s*\n", path.read_text(encoding="utf-8", errors="replace")):
            text = " ".join(part.split())
            if 60 <= len(text) <= 900 and text.isascii() and text.isprintable() and "____" not in text:
                found[text] = None
    if not found:
        raise FileNotFoundError(f"{LICENCES} holds no licences; install them with: apt-get install base-files")
    return tuple(found)


def document(seed: int) -> str:
    """The HTML of a page: one column or two, left or justified. Sizes, faces and columns go round with ``seed``."""
    rng = random.Random(f"browser-{seed}")
    columns, family = 1 + seed % 2, FAMILIES[seed % 3]
    size = SIZES[seed // 2 % (4 if columns == 1 else 3)]
    margin, leading = rng.choice((70, 100, 130)), rng.choice((1.2, 1.35, 1.5))
    top = margin + round(3.2 * size)
    blocks = [f"<h1>{rng.choice(TITLES)}</h1><div>"]
    for text in rng.sample(paragraphs(), 40):
        if rng.random() < 0.25:
            blocks.append(f"<h2>{rng.choice(TITLES)}</h2>")
        blocks.append(f"<p>{html.escape(text)}</p>")
    style = f"""
    body {{ margin: 0 {margin}px; width: {WIDTH - 2 * margin}px; background: #fff; color: #111;
            font: {size}px/{leading} "{family}"; text-align: {rng.choice(("left", "justify"))} }}
    h1 {{ position: absolute; top: {margin}px; margin: 0; font-size: {1.6 * size:.0f}px; line-height: 1.2 }}
    h2 {{ margin: 0; padding: {0.6 * size:.0f}px 0 {0.4 * size:.0f}px; font-size: {1.25 * size:.0f}px;
          break-after: avoid }}
    p {{ margin: 0; padding-bottom: {0.8 * size:.0f}px }}
    h1, h2, p {{ break-inside: avoid }}
    div {{ position: absolute; top: {top}px; width: inherit; height: {HEIGHT - top - margin}px;
           column-count: {columns}; column-gap: {GAP}px; column-fill: auto }}"""
    measure = MEASURE % {"bottom": HEIGHT - margin, "right": WIDTH - margin + 1}
    return f"<!doctype html><meta charset=utf-8><style>{style}</style>{''.join(blocks)}</div>{measure}"


def draw_browser_page(seed: int) -> Page:
    """The page of ``seed`` and its blocks. Raises FileNotFoundError without Chromium."""
    command = [
        find_chromium(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size={WIDTH},{HEIGHT}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, picture = Path(folder, "page.html"), Path(folder, "page.png")
        source.write_text(document(seed), encoding="utf-8")
        dumped = run([*command, "--dump-dom", str(source)])
        run([*command, f"--screenshot={picture}", str(source)])
        image = Image.open(picture).convert("RGB")
    truth = re.search(r'<script type="application/json" id="truth">(.*?)</script>', dumped, re.DOTALL)
    assert truth, "the page's own script writes it"
    blocks = [Block(LABELS[tag], _ink(image, box), [text]) for tag, text, box in json.loads(truth[1])]
    return Page(image, blocks)


def run(command: list[str]) -> str:
    """Standard output of a command that ends well within two minutes."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def _ink(image: Image.Image, box: list[float]) -> tuple[int, int, int, int]:
    """What is printed inside ``box``, as (left, top, right, bottom) px."""
    left, top, right, bottom = (round(value) for value in box)
    part = image.crop((left, top, right, bottom))
    inked = (
        ImageChops.difference(part, Image.new("RGB", part.size, "white"))
        .point(lambda value: 255 * (value > 40))
        .getbbox()
    )
    if inked is None:
        raise ValueError(f"nothing is printed inside {box}; expected a block of text")
    return inked[0] + left, inked[1] + top, inked[2] + left, inked[3] + top
