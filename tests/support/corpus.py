# SPDX-License-Identifier: Apache-2.0
"""A corpus of small PDFs, each page with lines of its own, and its outputs in a form that two runs can be compared by.

Run in the environment `corpus`.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pikepdf
import pyarrow.parquet

WIDTH, HEIGHT, LINES = 300, 400, 6  # of a page, in points


def write_pdf(path: Path, pages: int, seed: int) -> None:
    """A PDF of ``pages`` pages. Paragraphs differ in length, so the simulated VLM, which tells a block's size, says
    something else for each page."""
    dice = random.Random(seed)
    with pikepdf.new() as pdf:
        font = pdf.make_indirect(
            pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
        )
        for number in range(1, pages + 1):
            page = pdf.add_blank_page(page_size=(WIDTH, HEIGHT))
            page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
            words = [f"Document {seed} page {number}"] + [
                " ".join(["lorem", "ipsum", "dolor", "sit"] * 3)[: dice.randint(20, 44)] for _ in range(LINES)
            ]
            text = "".join(f"({line}) Tj 0 -16 Td " for line in words)
            page.Contents = pdf.make_stream(f"BT /F1 11 Tf 24 {HEIGHT - 60} Td {text} ET".encode())
        pdf.save(path)


def make(folder: Path, lengths: list[int]) -> None:
    """A document for each of ``lengths``, in folders of a hundred."""
    for number, pages in enumerate(lengths):
        path = folder / f"{number // 100:02d}" / f"{number:05d}.pdf"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pdf(path, pages, number)


def lengths(documents: int, most: int, seed: int = 1) -> list[int]:
    """Pages of each document: many short ones, few long ones, one of ``most`` pages."""
    dice = random.Random(seed)
    found = [max(1, min(most, round(dice.paretovariate(0.85)))) for _ in range(documents - 1)]
    return [*found[: documents // 2], most, *found[documents // 2 :]]


def outputs(out: Path) -> dict[str, str]:
    """A digest of each output by its path: of tables without the seconds, which differ from run to run."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if not path.is_file() or name.startswith("_corpus/"):
            continue
        if path.suffix == ".parquet":
            content = str(pyarrow.parquet.read_table(path).drop_columns("seconds").to_pylist()).encode()
        else:
            content = path.read_bytes()
        found[name] = hashlib.sha256(content).hexdigest()
    return found
