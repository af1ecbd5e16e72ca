#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One page on a CPU from the request to the answer, by stage: real parser, real VLM server, both models of the
published shapes with random weights.

    .venvs/parser/bin/python workshop/benchmarks/bench_page.py --work DIR [--precisions bfloat16 int8]
                             [--line_pixels 0 24] [--rounds 2]

The pages are tests/data/report.png (150 dpi, 18 crops) and the first of handbook.pdf as a scan of 300 dpi. Each crop
has 64 tokens of answer, because random weights find no end. The layout model computes in full and then gives the
demo's boxes, for the same reason. Each VLM server serves the parsers of all --line_pixels, which take turns. Prints
one JSON object; --work keeps the weights (2 GB).

`seconds` are the answer's; `parser` its stages (read, layout, blocks, vlm, write) and `vlm` the server's (image
processing, vision encode, prefill, decode), one after another; `cpu_s` processor seconds of the processes; `patches`
what the vision tower computed, four for each token of an image.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import pypdfium2

from free_ports import free_port
from model_bench.stages import totals
from parser_bench.layout_models import layout_model
from parser_bench.processes import OPENER, ROOT, Server, our_parser, say

TOKENS, ANSWER_S = 64, 3600
WORDS = 12  # tokens of a crop's prompt that are none of its image's
FOLDERS = ("workshop/benchmarks", "workshop", "model_code", "common")


def vlm_python() -> str:
    return str(ROOT / ".venvs/vlm/bin/python")


def environment(**further: str) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in FOLDERS), **further}


def vlm_server(folder: Path, shapes: Path, precision: str) -> Server:
    """Ours, which counts where its time goes in a folder beside its log."""
    port = str(free_port())
    chosen = {"HARDWARE": "cpu", "MODELS_DIR": str(shapes.parent), "VLM_MODEL": shapes.name, "VLM_PORT": port}
    name = f"vlm-{precision}"
    command = [vlm_python(), "-m", "model_bench.serve", "--implementation", "ours", "--stages", str(folder / "stages")]
    env = environment(**chosen, VLM_PRECISION=precision)
    return Server(name, command, folder, env, f"http://127.0.0.1:{port}/health")


def pages() -> dict[str, bytes]:
    page = pypdfium2.PdfDocument(ROOT / "tests/data/handbook.pdf")[0]
    scan = io.BytesIO()
    page.render(scale=300 / 72).to_pil().convert("RGB").save(scan, "PNG")
    return {"report, 150 dpi": (ROOT / "tests/data/report.png").read_bytes(), "handbook, 300 dpi": scan.getvalue()}


def metrics(url: str) -> dict[str, float]:
    """Samples of a page of metrics, by name and labels."""
    with OPENER.open(f"{url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^([a-z][^ ]*(?:{[^}]*})?) (\S+)$", text, re.M)}


def one_page(parser: Server, vlm: Server, stages: Path, page: bytes) -> dict[str, Any]:
    body = {"file": base64.b64encode(page).decode(), "fileType": 1, "visualize": False, "maxNewTokens": TOKENS}
    request = urllib.request.Request(
        f"{parser.url}/layout-parsing", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    before, worked = (metrics(parser.url), metrics(vlm.url)), totals(stages)
    with parser.measured() as parsers, vlm.measured() as vlms:
        began = time.monotonic()
        with OPENER.open(request, timeout=ANSWER_S) as answer:
            assert answer.status == 200
            answer.read()
        seconds = time.monotonic() - began
    ours, theirs = (
        {name: value - old.get(name, 0.0) for name, value in metrics(server.url).items()}
        for server, old in zip((parser, vlm), before)
    )

    def total(words: str) -> float:
        return sum(value for name, value in theirs.items() if name.partition("{")[0] == words)

    asked = total("vllm:request_success_total")
    stage = r'docparser_page_stage_duration_seconds_sum{stage="(\w+)"}'
    return {
        "seconds": seconds,
        "parser": {found[1]: value for name, value in ours.items() if (found := re.fullmatch(stage, name))},
        "vlm": {name: value - worked[name] for name, value in totals(stages).items()},
        "cpu_s": {"parser": parsers.cpu_s, "vlm": vlms.cpu_s},
        "calls": asked,
        "patches": 4 * (total("vllm:prompt_tokens_total") - WORDS * asked),
        "tokens": total("vllm:generation_tokens_total"),
    }


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: medians([run[name] for run in runs])
        if isinstance(value, dict)
        else round(statistics.median(run[name] for run in runs), 2)
        for name, value in runs[0].items()
    }


def main(words: list[str]) -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True, metavar="DIR")
    arguments.add_argument("--precisions", nargs="+", default=["bfloat16", "int8"], metavar="VLM_PRECISION")
    arguments.add_argument("--line_pixels", nargs="+", type=int, default=[0, 24], metavar="PARSER_LINE_PIXELS")
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--layout", type=layout_model, default="published", metavar="demo|published|DIR")
    options = arguments.parse_args(words)
    shapes = options.work.resolve() / "PaddleOCR-VL"
    if not (shapes / "config.json").is_file():
        command = [vlm_python(), "-m", "model_bench.checkpoint", "--out", str(shapes), "--weights"]
        subprocess.run(command, env={**os.environ, **environment()}, check=True, stdout=sys.stderr)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-page-") as name:
        folder = Path(name)
        for precision in options.precisions:
            with contextlib.ExitStack() as stack:
                vlm = stack.enter_context(contextlib.closing(vlm_server(folder, shapes, precision))).wait()
                parsers = {}
                for line in options.line_pixels:
                    settings = {"PARSER_LINE_PIXELS": str(line), "VLM_MODEL_NAME": "PaddleOCR-VL-0.9B"}
                    parser = our_parser(
                        folder,
                        f"{vlm.url}/v1",
                        options.layout,
                        1,
                        name=f"lines-{line}",
                        small_print="off",
                        settings=settings,
                    )
                    parsers[line] = stack.enter_context(contextlib.closing(parser)).wait()
                runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
                for _ in range(options.rounds):
                    for page, content in pages().items():
                        for line, parser in parsers.items():
                            found = one_page(parser, vlm, folder / "stages", content)
                            say(f"{precision}, {page}, lines {line}: {medians([found])}")
                            runs.setdefault((page, line), []).append(found)
                results[precision] = {f"{page}, lines {line}": medians(some) for (page, line), some in runs.items()}
    print(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
