# SPDX-License-Identifier: Apache-2.0
"""A job and `/layout-parsing` give the same result for the same file, with PaddleOCR's own pipeline.

The VLM and the layout model's weights are simulated, as in tests/parser.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys

import httpx
import pytest

from tests.support.jobs import JOBS, JobsParser
from tests.support.paths import DATA
from tests.support.processes import child_environment
from tests.support.simulated_vlm import SimulatedVlm, default_answer, image_of, prompt_of

HANDBOOK = DATA / "handbook.pdf"


def answer(request: dict, number: int) -> str:
    """The text depends on the crop alone, not on the order of requests."""
    if prompt_of(request) == "Table Recognition:":
        return default_answer(request, 0)
    image = image_of(request)
    return f"{prompt_of(request)} {image.size} {sum(image.convert('L').resize((8, 8)).tobytes())}"


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    layout = [sys.executable, "-m", "tests.support.simulated_layout", str(folder / "PP-DocLayoutV2")]
    subprocess.run(layout, env=child_environment(), check=True, capture_output=True, timeout=300)
    vlm = SimulatedVlm()
    vlm.answer = answer
    parser = JobsParser(folder, vlm.port, ("-m", "docparser"))
    yield parser.wait()
    parser.end()
    vlm.close()


def normal(result: dict) -> dict:
    """The result without the addresses and names of pictures, which differ."""
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
