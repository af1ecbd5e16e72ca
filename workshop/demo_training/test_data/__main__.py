# SPDX-License-Identifier: Apache-2.0
"""Draw the documents under tests/data, with their ground truth, from tests/data/pages.yaml. Run in workshop:

    ../.venvs/parser/bin/python -m demo_training.test_data [--out ../tests/data]

Needs Pillow, NumPy and PyYAML, which the parser environment has, and the fonts of fonts-dejavu-core and
fonts-liberation. The same input gives the same pixels.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import yaml
from PIL import Image

from .documents import draw_handbook, draw_invoice, draw_letter, draw_note, draw_report
from .pdf import write_pdf

DATA = Path(__file__).resolve().parents[3] / "tests" / "data"
IMAGES = DATA.parent / "images"  # whose tests alone ask for the note


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DATA)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    texts = yaml.safe_load((DATA / "pages.yaml").read_text(encoding="utf-8"))
    for name, draw in (("report", draw_report), ("invoice", draw_invoice), ("letter", draw_letter)):
        (page,) = draw(texts[name])
        page.image.quantize(64, dither=Image.Dither.NONE).save(out / f"{name}.png", optimize=True)
        page.save_truth(out / f"{name}.json")
    (page,) = draw_note(texts["note"])
    page.image.quantize(64, dither=Image.Dither.NONE).save((IMAGES if out == DATA else out) / "note.png", optimize=True)
    pages = draw_handbook(texts["handbook"])
    write_pdf(out / "handbook.pdf", pages)
    truth = {"pages": [page.truth() for page in pages]}
    (out / "handbook.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    for path in sorted(out.iterdir()):
        print(f"{path.name} {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
