# SPDX-License-Identifier: Apache-2.0
"""A job and ``/layout-parsing`` on the same file give the same, with PaddleOCR's own pipeline.

Simulated are the VLM and the layout model's weights, as in tests/parser.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from fake_vlm import FakeVlm, default_answer, image_of, prompt_of
from processes import JOBS, Parser

TESTS = Path(__file__).resolve().parents[1]
HANDBOOK = TESTS / "data/handbook.pdf"

pytestmark = pytest.mark.slow


def answer(request: dict, number: int) -> str:
    """The same for the same crop, whenever it comes."""
    if prompt_of(request) == "Table Recognition:":
        return default_answer(request, 0)
    image = image_of(request)
    return f"{prompt_of(request)} {image.size} {sum(image.convert('L').resize((8, 8)).tobytes())}"


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    layout = [sys.executable, str(TESTS / "parser/placeholder_layout.py"), str(folder / "PP-DocLayoutV2")]
    subprocess.run(layout, check=True, capture_output=True, timeout=300)
    vlm = FakeVlm()
    vlm.answer = answer
    parser = Parser(folder, vlm.port, main=["-m", "docparser"], PARSER_CPU_THREADS="1")
    yield parser.wait()
    parser.end()
    vlm.close()


def normal(result: dict) -> dict:
    """Without what must differ: where pictures are, and what they are called."""
    entries = []
    for number, entry in enumerate(result["layoutParsingResults"], 1):
        markdown = entry["markdown"]
        names = {path: path.rsplit("/", 1)[-1].removeprefix(f"page_{number:04d}_") for path in markdown["images"]}
        text = markdown["text"]
        for path, name in names.items():
            text = text.replace(path, name)
        pictures = {names[path]: content(picture) for path, picture in markdown["images"].items()}
        drawn = sorted(content(picture) for picture in entry["outputImages"].values())
        entries.append((entry["prunedResult"], text, pictures, drawn, content(entry["inputImage"])))
    return {"entries": entries, "dataInfo": result["dataInfo"]}


def content(picture: str) -> bytes:
    return httpx.get(picture, trust_env=False).content if picture.startswith("http") else base64.b64decode(picture)


@pytest.mark.parametrize("options", [{}, {"restructurePages": True}], ids=["pages", "joined"])
def test_the_job_is_what_layout_parsing_gives(parser, options):
    options = {"visualize": True, **options}
    document = HANDBOOK.read_bytes()
    body = {"file": base64.b64encode(document).decode(), **options}
    direct = parser.client.post("/layout-parsing", json=body).json()["result"]
    job_id = parser.job(document, optionalPayload=json.dumps(options))
    state = parser.ended(job_id)
    assert state["state"] == "done" and "errorMsg" not in state
    lines = parser.lines(state["resultUrl"]["jsonUrl"])
    together = {
        "layoutParsingResults": [line["layoutParsingResults"][0] for line in lines],
        "dataInfo": lines[0]["dataInfo"],
    }
    assert normal(together) == normal(direct)
    assert len(lines) == 3 and {len(line["layoutParsingResults"][0]["markdown"]["images"]) for line in lines} == {1}
    assert parser.client.delete(f"{JOBS}/{job_id}?purge=true").status_code == 200
