# SPDX-License-Identifier: Apache-2.0
"""The documents of the benchmark: PDFs of text pages, made here, the same for every server."""

from __future__ import annotations

import random

WORDS = (
    "the of parser page block layout model server request answer table column river stone paper window garden morning "
    "history language number system value result measure light water north"
).split()
WIDTH, HEIGHT, MARGIN = 595, 842, 40  # A4 in points
COLUMNS, ROWS, LINES, LEADING = 2, 15, 3, 11


def text_pdf(pages: int = 1, seed: int = 0) -> bytes:
    """Pages of 30 short paragraphs in two columns, which the layout model finds as about 30 blocks."""
    streams = [_page(random.Random(f"{seed}-{number}")) for number in range(pages)]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, stream in enumerate(streams):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * number} 0 R >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    return assemble(objects)


def endless_pdf(mark: int, depth: int = 9, width: int = 10) -> bytes:
    """A page of forms in forms that draw ``width ** depth`` rectangles; ``mark`` makes it unlike any other."""
    form = "/Type /XObject /Subtype /Form /BBox [0 0 595 842]"
    draw = b"/F Do\n" * width
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
        b"/Resources << /XObject << /F 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(draw), draw),
    ]
    for level in range(depth):
        inner = draw if level < depth - 1 else b"0 0 5 5 re f\n%% %d" % mark
        resources = f"/Resources << /XObject << /F {6 + level} 0 R >> >>" if level < depth - 1 else ""
        head = f"<< {form} {resources} /Length {len(inner)} >>".encode()
        objects.append(b"%s\nstream\n%s\nendstream" % (head, inner))
    return assemble(objects)


def _page(chance: random.Random) -> bytes:
    lines = ["BT"]
    column, row = (WIDTH - 2 * MARGIN) / COLUMNS, (HEIGHT - 2 * MARGIN) / ROWS
    for place in range(COLUMNS * ROWS):
        x, y = MARGIN + place // ROWS * column, HEIGHT - MARGIN - place % ROWS * row - 10
        for line in range(LINES):
            share = 0.92 if line < LINES - 1 else chance.uniform(0.5, 0.8)
            words = ""
            while len(words) < column / 4.6 * share:  # 9 pt Helvetica: 4.6 points a character
                words += chance.choice(WORDS) + " "
            lines.append(f"/F1 9 Tf 1 0 0 1 {x:.1f} {y - line * LEADING:.1f} Tm ({words.strip()}) Tj")
    return "\n".join([*lines, "ET"]).encode()


def assemble(objects: list[bytes]) -> bytes:
    """A PDF file of these objects; the first is its catalogue."""
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()
