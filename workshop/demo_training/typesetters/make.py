# SPDX-License-Identifier: Apache-2.0
"""Make a shelf of printed pages for training: pictures and their lines.

    python -m demo_training.typesetters.make --out DIR [--documents 60] [--split train]

Documents go round TeX, Chromium and LibreOffice. The command goes on where it ended. Needs the environment `parser`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import tempfile
from pathlib import Path

from . import chromium, office, tex
from .blocks import Form
from .faces import require_faces
from .printed import printed_pages
from .prose import Prose

TYPESETTERS = {"tex": tex.typeset, "chromium": chromium.typeset, "office": office.typeset}
DPI = (144, 144, 144, 120, 132, 160, 180, 200)  # the parser renders PDFs at 144


def make(out: Path, name: str, seed: int, split: str, pages: int) -> int:
    """Set one document with typesetter ``name`` and put its pages on the shelf ``out``; returns how many."""
    rng = random.Random(f"{name}-{split}-{seed}")
    count = 0
    done = out / f"{name}-{seed:04d}.done"
    if done.exists():
        return 0
    with tempfile.TemporaryDirectory() as folder:
        form = Form(titled=rng.random() < 0.6, paper=rng.choice(("A4", "A4", "A4", "A5")))
        made = TYPESETTERS[name](rng, Prose(rng, split), Path(folder), rng.randint(1, 2 * pages - 1), form)
        for page in printed_pages(made.pdf, rng.choice(DPI) / 72, made.blocks):
            page.save(out / f"{name}-{seed:04d}-{count:02d}")
            count += 1
    done.touch()
    return count


def _make(arguments: tuple[Path, str, int, str, int]) -> tuple[str, int, int]:
    return arguments[1], arguments[2], make(*arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the shelf")
    parser.add_argument("--documents", type=int, default=60, help="of each typesetter (default %(default)s)")
    parser.add_argument("--pages", type=int, default=12, help="of a document, on average (default %(default)s)")
    parser.add_argument("--split", choices=("train", "heldout"), default="train")
    parser.add_argument("--typesetters", nargs="+", choices=TYPESETTERS, default=list(TYPESETTERS))
    arguments = parser.parse_args()
    require_faces()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tasks = [
        (arguments.out, name, seed, arguments.split, arguments.pages)
        for seed in range(arguments.documents)
        for name in arguments.typesetters
    ]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for name, seed, count in pool.imap_unordered(_make, tasks):
            print(f"{name} {seed}: {count} pages", flush=True)


if __name__ == "__main__":
    main()
