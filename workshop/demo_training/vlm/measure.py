# SPDX-License-Identifier: Apache-2.0
"""Character error of a served model on held-out crops, core and wider range apart.

    python -m demo_training.vlm.measure --url http://127.0.0.1:8000/v1 [--crops 200] [--json FILE]

Crops are drawn with words, seed and random strings that training never saw, JPEG-coded and sent
as PaddleOCR's client sends them. Error is edit distance over characters of the truth, summed.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import random
import statistics
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from ..scores import edit_distance
from .crops import MAX_PIXELS, MIN_PIXELS, CropMaker, Stage

DEMO = Path(__file__).resolve().parents[3] / "models" / "demo" / "PaddleOCR-VL"
SETS = {
    "core_line": Stage(1, lines=(1, 1), widths=(100, 1100), strange=(0.05, 0.3)),
    "core_paragraph": Stage(1, lines=(2, 6), widths=(280, 1100), strange=(0.05, 0.3)),
    "core_stacked": Stage(1, lines=(4, 12), widths=(300, 560), stacked=1.0, strange=(0.05, 0.3)),
    "strange_line": Stage(1, lines=(1, 1), widths=(100, 1100), strange=(0.9, 1.0)),
    "long_paragraph": Stage(1, lines=(7, 14), long=1.0, widths=(380, 1100), strange=(0.05, 0.3), phrases=0.03),
    "wider": Stage(1, lines=(1, 8), widths=(200, 1100), wider=1.0, strange=(0.05, 0.3)),
}


def read(url: str, model: str, jpeg: bytes, timeout: float = 120.0) -> str:
    """The text the server returns for one JPEG crop."""
    return ask(url, model, jpeg, timeout)["message"]["content"]


def ask(url: str, model: str, jpeg: bytes, timeout: float = 120.0, **further: Any) -> dict[str, Any]:
    """What the server chose for one JPEG crop; ``further`` fields of the request."""
    image = "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()
    body = {
        "model": model,
        "temperature": 0,
        "max_completion_tokens": 4096,
        **further,
        "mm_processor_kwargs": {"min_pixels": MIN_PIXELS, "max_pixels": MAX_PIXELS},
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": "OCR:"}],
            }
        ],
    }
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return json.load(response)["choices"][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="PaddleOCR-VL-0.9B")
    parser.add_argument("--tokenizer", type=Path, default=DEMO / "tokenizer.json")
    parser.add_argument("--crops", type=int, default=100, help="crops of each set")
    parser.add_argument("--seed", type=int, default=20_251_120)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--show", type=int, default=3, help="print this many wrong readings of each set")
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(arguments.tokenizer))
    figures = {}
    for name, stage in SETS.items():
        maker = CropMaker(tokenizer, arguments.seed, split="heldout")
        crops = [maker.page_crop(stage) for _ in range(arguments.crops)]
        jpegs = []
        for image, _ in crops:
            coded = io.BytesIO()
            image.save(coded, format="JPEG")
            jpegs.append(coded.getvalue())
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda jpeg: read(arguments.url, arguments.model, jpeg), jpegs))
        seconds = time.monotonic() - began
        errors = [edit_distance(truth, answer) for (_, truth), answer in zip(crops, answers)]
        length = sum(len(truth) for _, truth in crops)
        figures[name] = {
            "character_error": round(sum(errors) / length, 5),
            "median_crop_error": round(statistics.median(e / len(t) for e, (_, t) in zip(errors, crops)), 5),
            "perfect": round(sum(e == 0 for e in errors) / len(errors), 3),
            "characters": length,
            "seconds": round(seconds, 1),
        }
        print(name, json.dumps(figures[name]), flush=True)
        wrong = [index for index, error in enumerate(errors) if error]
        for index in random.Random(0).sample(wrong, min(arguments.show, len(wrong))):
            print(f"  truth  {crops[index][1]!r}\n  answer {answers[index]!r}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
