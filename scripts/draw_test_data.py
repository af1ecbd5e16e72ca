#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the pages under tests/data, with their ground truth, from tests/data/pages.yaml.

    scripts/draw_test_data.py [--out tests/data]

Needs Pillow, NumPy, PyYAML (the parser environment has them) and the fonts of fonts-dejavu-core and fonts-liberation.
The same input gives the same pixels.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from pathlib import Path

import yaml
from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "model_code"))

from demo_training.drawing.block import wrap  # noqa: E402
from demo_training.drawing.fonts import FACES, Face  # noqa: E402
from demo_training.pages.page import Page  # noqa: E402
from demo_training.pages.tables import RULES, set_table  # noqa: E402
from demo_training.pages.typeset import set_lines  # noqa: E402

WIDTH, HEIGHT = 1240, 1754  # A4 at 150 dpi
INK, ACCENT, GREY = (20, 20, 24), (24, 62, 104), (90, 90, 96)


def face(name: str, bold: bool = False) -> Face:
    return next(one for one in FACES if one.name == name and one.bold == bold)


class Sheet:
    """A page being set from the top; lengths in px. ``y`` is where the next block goes."""

    def __init__(self, body: Face, head: Face, size: int, left: int, right: int):
        self.page = Page(Image.new("RGB", (WIDTH, HEIGHT), (255, 255, 255)), [])
        self.body, self.head, self.size = body, head, size
        self.left, self.right, self.y = left, right, 0.0

    def put(self, label, lines, size=None, face=None, gap=0.85, align="left", ink=INK, pitch=1.34):
        """Set finished lines; ``gap`` in em follows them."""
        size = size or self.size
        lines = [(line, 0.0) for line in lines]
        set_lines(
            self.page, label, lines, face or self.body, size, self.left, self.y, self.right - self.left, pitch * size, ink, align
        )
        self.y += (len(lines) - 1) * pitch * size + size + gap * size

    def text(self, text: str, justify: bool = False, **options):
        """Set a paragraph; a text with line breaks of its own keeps them."""
        kept = text.strip().split("\n")
        lines = kept if len(kept) > 1 else wrap(text.split(), self.body, self.size, self.right - self.left, 99)
        self.put("text", lines, align="justify" if justify and len(kept) == 1 else "left", **options)

    def heading(self, text: str, scale: float = 1.2, **options):
        self.y += 0.35 * self.size
        size = round(self.size * scale)
        lines = wrap(text.split(), self.head, size, self.right - self.left, 2)
        self.put("paragraph_title", lines, size=size, face=self.head, gap=0.6, ink=ACCENT, **options)

    def picture(self, image: Image.Image, label: str):
        x, y = round((self.left + self.right - image.width) / 2), round(self.y)
        box = (x, y, x + image.width, y + image.height)
        self.page.add_ink(label, box, lambda: self.page.image.paste(image, (x, y)))
        self.y += image.height + 0.7 * self.size

    def rule(self, y: int, width: int = 1):
        ImageDraw.Draw(self.page.image).line((self.left, y, self.right, y), fill=GREY, width=width)


def bars(width: int, height: int) -> Image.Image:
    """Failed wells by month."""
    image = Image.new("RGB", (width, height), (255, 255, 255))
    draw = ImageDraw.Draw(image)
    font = face("Liberation Sans").at(18)
    left, bottom = 44, height - 34
    for value in range(0, 17, 4):
        y = bottom - value * (bottom - 16) / 16
        draw.line((left, y, width - 6, y), fill=(214, 214, 220))
        draw.text((left - 10, y), str(value), fill=GREY, font=font, anchor="rm")
    months = "JFMAMJJASOND"
    step = (width - left - 12) / 12
    for index, (month, value) in enumerate(zip(months, (2, 1, 2, 3, 5, 15, 11, 8, 7, 6, 3, 2))):
        x = left + 6 + index * step
        top = bottom - value * (bottom - 16) / 16
        draw.rectangle((x + 5, top, x + step - 5, bottom), fill=(62, 116, 168) if value < 9 else (190, 84, 60))
        draw.text((x + step / 2, bottom + 8), month, fill=GREY, font=font, anchor="mt")
    draw.line((left, 10, left, bottom, width - 6, bottom), fill=(60, 60, 66), width=2)
    return image


def loaf(width: int, height: int) -> Image.Image:
    """A loaf on a board."""
    image = Image.new("RGB", (width, height), (233, 224, 205))
    draw = ImageDraw.Draw(image)
    for row in range(height):
        shade = row / height
        draw.line((0, row, width, row), fill=(int(206 - 40 * shade), int(214 - 30 * shade), int(218 - 50 * shade)))
    draw.rectangle((0, int(height * 0.66), width, height), fill=(150, 108, 70))
    for y in range(int(height * 0.7), height, 16):
        draw.line((0, y, width, y - 8), fill=(132, 92, 58), width=2)
    box = (int(width * 0.2), int(height * 0.22), int(width * 0.8), int(height * 0.86))
    draw.ellipse(box, fill=(158, 98, 46))
    inner = (box[0] + 14, box[1] + 8, box[2] - 14, box[3] - 26)
    draw.ellipse(inner, fill=(190, 128, 66))
    for cut in range(4):
        x = inner[0] + (inner[2] - inner[0]) * (0.24 + 0.15 * cut)
        draw.line((x, inner[1] + 0.62 * height * 0.5, x + 60, inner[1] + 0.14 * height), fill=(240, 214, 160), width=9)
    return image


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
    for left, right, blocks in ((96, middle - gutter // 2, text["left"]), (middle + gutter // 2, WIDTH - 96, text["right"])):
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
        sheet.page, rows, (sans, bold), 25, 110, round(sheet.y), WIDTH - 220, RULES["shaded grid"], INK,
        row_height=54, shares=[2.4, 1, 1, 1], right_columns=frozenset({1, 2, 3}),
    )  # fmt: skip
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


def write_pdf(path: Path, pages: list[Page], dpi: int = 150) -> None:
    """A PDF with each page as one losslessly compressed picture, as scanners write them."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    for page in pages:
        width, height = page.image.size
        points = f"{width * 72 / dpi:.2f} {height * 72 / dpi:.2f}"
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        # Sixty-four colours are enough for drawn pages and a third of the size.
        small = page.image.quantize(64, dither=Image.Dither.NONE)
        palette = bytes(small.getpalette()[: 64 * 3]).ljust(64 * 3, b"\0").hex()
        data = zlib.compress(small.tobytes(), 9)
        drawing = zlib.compress(f"q {width * 72 / dpi:.2f} 0 0 {height * 72 / dpi:.2f} 0 0 cm /P Do Q".encode())
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {points}] /Contents {number + 1} 0 R "
            f"/Resources << /XObject << /P {number + 2} 0 R >> >> >>".encode(),
            f"<< /Length {len(drawing)} /Filter /FlateDecode >>\nstream\n".encode() + drawing + b"\nendstream",
            f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent 8 "
            f"/ColorSpace [/Indexed /DeviceRGB 63 <{palette}>] /Filter /FlateDecode /Length {len(data)} >>\n"
            "stream\n".encode() + data + b"\nendstream",
        ]
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>".encode()
    out, places = b"%PDF-1.5\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = b"".join(f"{place:010d} 00000 n \n".encode() for place in places)
    size = len(objects) + 1
    out += f"xref\n0 {size}\n0000000000 65535 f \n".encode() + table
    out += f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{out.rindex(b'xref')}\n%%EOF\n".encode()
    path.write_bytes(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "data")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    texts = yaml.safe_load((ROOT / "tests" / "data" / "pages.yaml").read_text(encoding="utf-8"))
    for name, draw in (("report", draw_report), ("invoice", draw_invoice), ("letter", draw_letter)):
        (page,) = draw(texts[name])
        page.image.quantize(64, dither=Image.Dither.NONE).save(out / f"{name}.png", optimize=True)
        page.save_truth(out / f"{name}.json")
    pages = draw_handbook(texts["handbook"])
    write_pdf(out / "handbook.pdf", pages)
    truth = {"pages": [page.truth() for page in pages]}
    (out / "handbook.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    for path in sorted(out.iterdir()):
        print(f"{path.name} {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
