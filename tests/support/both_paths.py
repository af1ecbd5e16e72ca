# SPDX-License-Identifier: Apache-2.0
"""Reads pages through PaddleX's `predict` (`tests.support.old_page`) and on the loop of ours (`docparser.page`).

    .venvs/parser/bin/python -m tests.support.both_paths {old|new} FILE [--drawn 60]

Each path has a process of its own, since the old one replaces names of PaddleX. The layout model is the demo's for
version 1, and the simulated PP-DocLayoutV3 for 1.5 and 1.6. The simulated VLM's answers follow from the request alone:
tables with figures in them, formulas, spotted texts, cut and missing ones. FILE gets a line for each page: what was
asked (digests of the requests, sorted), prunedResult and Markdown, plain and pretty, and the notes. The two files must
be equal, byte by byte. Two fields of spotted pages are left out, the confidence and the block of a note: PaddleX's
post-processing of spotted texts ate the old path's mark, and these with it.

With 60 drawn pages: 320 readings, 1,410 requests and 640 entries, all equal.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import io
import json
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.support.paths import ROOT
from tests.support.simulated_layout import V3
from tests.support.simulated_vlm import SimulatedVlm, image_url, prompt_of

USUAL = {"layout_shape_mode": "auto"}
OPTIONS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "charts and seals": {"use_chart_recognition": True, "use_seal_recognition": True},
    "pictures are read": {"use_ocr_for_image_block": True},
    "a page as text": {"use_layout_detection": False},
    "a page as a table": {"use_layout_detection": False, "prompt_label": "table"},
    "a page as a chart": {"use_layout_detection": False, "prompt_label": "chart"},
    "a page as a formula": {"use_layout_detection": False, "prompt_label": "formula"},
    "a page as a seal": {"use_layout_detection": False, "prompt_label": "seal"},
    "spotting": {"use_layout_detection": False, "prompt_label": "spotting"},
    "nothing merged, nothing left out": {
        "merge_layout_blocks": False,
        "format_block_content": True,
        "markdown_ignore_labels": [],
        "temperature": 0.2,
        "top_p": 0.9,
        "repetition_penalty": 1.1,
        "max_new_tokens": 100,
    },
    "other boxes": {
        "layout_threshold": 0.2,
        "layout_nms": False,
        "layout_unclip_ratio": 1.1,
        "layout_merge_bboxes_mode": "small",
        "layout_shape_mode": "rect",
        "min_pixels": 1000,
        "max_pixels": 500_000,
        "vlm_extra_args": {"table_max_pixels": 400_000, "formula_min_pixels": 2000},
    },
}
VERSIONS = ("PaddleOCR-VL", "PaddleOCR-VL-1.5", "PaddleOCR-VL-1.6")
PLACE = "".join(f"<|LOC_{place}|>" for place in (100, 200, 500, 200, 500, 300, 100, 300))


def answer(request: dict, number: int) -> str | tuple[int, str]:
    """From the picture and the prompt alone."""
    chance = int(hashlib.sha256(image_url(request).encode()).hexdigest()[:8], 16)
    prompt = prompt_of(request)
    if chance % 11 == 0:
        return (400, "not this block")
    if prompt == "Table Recognition:":
        if chance % 7 == 0:
            return "<fcel><xcel><nl><xcel>"
        return f"<fcel>Item {chance}<fcel>[F1]<lcel><nl><fcel>\\(a < b\\)<ecel><fcel>[F2]<nl>"
    if prompt == "Spotting:":
        return f"word {chance}{PLACE}\nother{PLACE}"
    if prompt == "Chart Recognition:":
        return f"year | {chance}\n1 | 2"
    if prompt == "Formula Recognition:":
        return f"\\[ x^{chance % 10} \\]"
    return (f"1. Words {chance} of \\(a_{chance % 9}\\)\nand more", "", "a-b" * 40, "# Title", " two\n\nlines ")[
        chance % 5
    ]


def pictures(drawn: int) -> dict[str, np.ndarray]:
    from demo_training.pages.documents import draw_page
    from docparser.documents.decoder import DocumentDecoder
    from docparser.documents.limits import DocumentLimits
    from docparser.documents.spool import Document
    from docparser.settings import Settings

    decoder = DocumentDecoder(DocumentLimits.of(Settings()))
    found = {
        f"{path.name} {index}": decoder.read_page(Document(str(path), format), index)
        for path, format, count in (
            (ROOT / "tests/data/handbook.pdf", "PDF", 2),
            (ROOT / "tests/data/invoice.png", "PNG", 1),
            (ROOT / "tests/data/letter.png", "PNG", 1),
            (ROOT / "tests/data/report.png", "PNG", 1),
        )
        for index in range(count)
    }
    for seed in range(4_200_000, 4_200_000 + drawn):
        page = np.asarray(draw_page(seed, "heldout").image.convert("RGB"))
        found[f"drawn {seed}"] = np.ascontiguousarray(page[:, :, ::-1])
    return found


def old_path(settings: Any) -> tuple[Callable[..., Any], Callable[[Any, int, Any], bytes]]:
    from docparser.worker.baton import STARTING, Baton, HolderSlot
    from tests.support.old_page.block_client import PageCalls
    from tests.support.old_page.frozen_page import without_pictures
    from tests.support.old_page.pipeline import PagePipeline
    from tests.support.old_page.text_jobs import ReadPage, read_page

    pipeline = PagePipeline(settings)
    baton = Baton(HolderSlot((ctypes.c_double * 2)()))

    def read(picture: np.ndarray, options: dict[str, Any]) -> Any:
        baton.take(1, STARTING)
        try:
            return pipeline.read(picture, options, PageCalls(1, "page", baton, lambda: None))
        finally:
            baton.give()

    return read, lambda reading, number, answer: _entry(read_page, ReadPage, without_pictures, reading, number, answer)


def new_path(settings: Any) -> tuple[Callable[..., Any], Callable[[Any, int, Any], bytes]]:
    import contextlib

    from docparser.page.frozen import without_pictures
    from docparser.page.loop import PageLoop
    from docparser.page.run import PageRun
    from docparser.worker.text_jobs import ReadPage, read_page

    loop = PageLoop(settings)
    return (
        lambda picture, options: loop.read(picture, options, PageRun("page", contextlib.nullcontext)),
        lambda reading, number, answer: _entry(read_page, ReadPage, without_pictures, reading, number, answer),
    )


def _entry(read_page: Any, task: Any, without_pictures: Any, reading: Any, number: int, answer: Any) -> bytes:
    sink = io.BytesIO()
    given = task(without_pictures(reading.frozen), number, answer, 1600)
    read_page({}, io.BytesIO(pickle.dumps(given)), sink)
    return sink.getvalue()


def digest(picture: Any) -> str:
    pixels = np.asarray(picture.convert("RGB") if isinstance(picture, Image.Image) else picture)
    return hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()[:16]


def shown(frozen: dict) -> dict[str, str]:
    """The pictures of the page, by their names."""
    images = [block["image"] for block in frozen["blocks"] if block["image"] is not None]
    return {image["path"]: digest(image["img"]) for image in [*images, *(frozen["imgs_in_doc"] or [])]}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", choices=("old", "new"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--drawn", type=int, default=60)
    options = parser.parse_args(words)
    from docparser.contract.options import AnswerOptions
    from docparser.settings import Settings
    from docparser.worker import offline

    pages = pictures(options.drawn)
    with tempfile.TemporaryDirectory() as name, options.out.open("w") as out:
        command = [sys.executable, "-m", "tests.support.simulated_layout", f"{name}/{V3}"]
        subprocess.run(command, check=True)
        vlm = SimulatedVlm()
        for version in VERSIONS:
            first = version == VERSIONS[0]
            vlm.reset()
            vlm.answer, vlm.model = answer, f"{version}-0.9B"
            layout = ROOT / "models/demo/PP-DocLayoutV2" if first else Path(name) / V3
            settings = Settings(
                vlm_url=vlm.url,
                vlm_model=version,
                layout_model_dir=layout,
                cache_dir=Path(name) / "cache",
                layout_engine="auto" if first else "paddle",
                cpu_threads=1,
                confidence=True,
                workers=1,
            )
            offline.prepare(settings)
            read, entry = (old_path if options.path == "old" else new_path)(settings)
            for number, (page, picture) in enumerate(pages.items()):
                drawn = page.startswith("drawn")
                if drawn and not first and number % 6:
                    continue
                chosen = list(OPTIONS) if not drawn else {list(OPTIONS)[0], list(OPTIONS)[number % len(OPTIONS)]}
                for option in sorted(chosen):
                    vlm.requests.clear()
                    reading = read(picture.copy(), USUAL | OPTIONS[option])
                    asked = sorted(json.dumps(request, sort_keys=True) for request in vlm.requests)
                    line: dict[str, Any] = {
                        "page": [version, page, option],
                        "asked": [hashlib.sha256(request.encode()).hexdigest()[:16] for request in asked],
                        "notes": [note | {"block_id": 0} if option == "spotting" else note for note in reading.notes],
                        "pictures": shown(reading.frozen),
                        "spotted_on": reading.spotted_on is not None,
                        "drawn": {} if option == "spotting" else {k: digest(v) for k, v in reading.drawn().items()},
                    }
                    for pretty in (True, False):
                        how = AnswerOptions(pretty, pretty, True, False, False)
                        text = entry(reading, 1, how).decode()
                        if option == "spotting":
                            text = re.sub(r'"confidence":(null|[0-9.]+)', '"confidence":0', text)
                        line[f"entry, pretty {pretty}"] = text
                    out.write(json.dumps(line) + "\n")
        vlm.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
