# SPDX-License-Identifier: Apache-2.0
"""A job and `/layout-parsing` give the same result for the same file, with PaddleOCR's own pipeline."""

from __future__ import annotations

import base64
import json
import pickle
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.support import samples
from tests.support.parser_process import JOBS, ParserProcess
from tests.support.paths import DATA
from tests.support.simulated_vlm import SimulatedVlm, default_answer, image_of, prompt_of
from tests.support.wait import WAIT_S, wait_for

HANDBOOK = DATA / "handbook.pdf"


def answer(request: dict, number: int) -> str:
    """The text depends on the crop alone, not on the order of requests."""
    if prompt_of(request) == "Table Recognition:":
        return default_answer(request, 0)
    image = image_of(request)
    return f"{prompt_of(request)} {image.size} {sum(image.convert('L').resize((8, 8)).tobytes())}"


@pytest.fixture
def parser(service: ParserProcess, vlm: SimulatedVlm) -> ParserProcess:
    vlm.answer = answer
    return service


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


def test_a_page_has_its_own_text_until_the_pages_are_joined(parser, vlm):
    """Also if they never are, because the job is cancelled."""
    white, grey = (samples.picture(color=color) for color in ("white", "grey"))
    read = threading.Event()

    def white_first(request: dict, number: int) -> str:
        if image_of(request).convert("L").tobytes()[0] < 200:
            read.wait(WAIT_S)
        return answer(request, number)

    vlm.answer = white_first
    options = json.dumps({"restructurePages": True, "visualize": False})
    pages = samples.save(white, "PDF", save_all=True, append_images=[grey])
    job = f"{JOBS}/{parser.job(pages, optionalPayload=options)}"
    try:
        wait_for(lambda: parser.client.get(f"{job}/pages/1").status_code == 200, what="the first page")
        (page,) = parser.client.get(f"{job}/pages/1").json()["result"]["layoutParsingResults"]
        assert page["markdown"]["text"] and page["prunedResult"]["parsing_res_list"]
        parser.client.delete(job).raise_for_status()
    finally:
        read.set()
    text = parser.client.get(f"{job}/result?format=md")
    assert (text.status_code, text.headers["Document-Partial"]) == (200, "2"), text.text
    assert "<!-- page 2 is missing -->" in text.text


class Replacing(threading.Thread):
    """Writes ``content`` over the first file ``name`` of a page of the job that appears."""

    def __init__(self, folder: Path, name: str, content: bytes) -> None:
        super().__init__()
        self.replaced: Path | None = None
        self._folder, self._name, self._content = folder, name, content

    def run(self) -> None:
        end = time.monotonic() + WAIT_S
        while self.replaced is None and time.monotonic() < end:
            for path in self._folder.glob(f"pages/0*/{self._name}"):
                path.write_bytes(self._content)
                self.replaced = path
                return
            time.sleep(0.002)


class Evil:
    """Runs code where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self):
        return Path.touch, (self._mark,)


@pytest.mark.parametrize("name", ["frozen.json", "frozen-0000.png"])
def test_a_page_that_was_exchanged_is_read_again_and_runs_nothing(parser, tmp_path, name):
    mark, state = tmp_path / "ran", {}
    for _ in range(5):  # on a busy machine a page may be joined before it is seen here
        job_id = parser.job(HANDBOOK.read_bytes(), optionalPayload=json.dumps({"restructurePages": True}))
        replacing = Replacing(parser.log.parent / "data/jobs" / job_id, name, pickle.dumps(Evil(mark)))
        replacing.start()
        state = parser.ended(job_id)
        replacing.join()
        assert replacing.replaced is not None and not mark.exists()
        if f"job {job_id}" in parser.log.read_text():
            break
    assert state["state"] == "done" and state["extractProgress"]["extractedPages"] == 3
    pages = [line["layoutParsingResults"][0] for line in parser.lines(state["resultUrl"]["jsonUrl"])]
    assert all(page["markdown"]["text"] for page in pages)
    assert "is not what was written" in parser.log.read_text()
    assert parser.metrics()["docparser_damaged_pages_total"] >= 1


def test_a_picture_that_was_exchanged_is_not_given_out(parser):
    job_id = parser.job(HANDBOOK.read_bytes())
    lines = parser.lines(parser.ended(job_id)["resultUrl"]["jsonUrl"])
    (address,) = lines[0]["layoutParsingResults"][0]["markdown"]["images"].values()
    assert httpx.get(address, trust_env=False).status_code == 200
    (path,) = (parser.log.parent / "data/jobs" / job_id / "pages").glob(f"000001-*/{address.rsplit('/', 1)[1]}")
    path.write_bytes(b"another picture")
    refused = httpx.get(address, trust_env=False)
    assert refused.status_code == 500 and "not what was written" in refused.json()["msg"]
    failed = parser.state(job_id)["docparser"]["failedPages"]
    assert [(page["page"], page["kind"]) for page in failed] == [(1, "damaged")]
