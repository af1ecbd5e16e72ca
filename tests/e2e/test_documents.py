# SPDX-License-Identifier: Apache-2.0
"""Documents through the real chain: layout model, PaddleOCR's pipeline, vLLM with our plugin, demo weights."""

from __future__ import annotations

import itertools
import json
import re
import urllib.request

import pytest
from conftest import DATA
from local_mode import LocalMode
from texts import error_rate, plain, true_text

# The least that is accepted of the demo weights on clean pages in their core range.
ACCEPTED_ERROR = 0.03


def get(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.load(response)


def truth(name: str) -> list[dict[str, object]]:
    data = json.loads((DATA / f"{name}.json").read_text())
    return data.get("pages", [data])


def check_text(markdown: str, pages: list[dict[str, object]]) -> None:
    expected = " ".join(map(true_text, pages))
    found = plain(markdown)
    rate = error_rate(found, expected)
    print(f"character error {rate:.2%} over {len(expected)} characters")
    assert rate <= ACCEPTED_ERROR, f"{rate:.2%}\nexpected: {expected}\nfound:    {found}"


def test_report(local: LocalMode):
    markdown = (local.folder / "first.stdout").read_text()
    assert markdown == (local.folder / "first/report.md").read_text()
    check_text(markdown, truth("report"))
    assert re.search(r"^# ", markdown, re.MULTILINE) and re.search(r"^## ", markdown, re.MULTILINE)


def test_banner_and_progress_go_to_stderr(local: LocalMode):
    stderr = (local.folder / "first.stderr").read_text()
    assert "DEMO WEIGHTS" in stderr and "waiting for the VLM server" in stderr
    times = [float(text) for text in re.findall(r"^\[ *([\d.]+) s\]", stderr, re.MULTILINE)]
    assert times == sorted(times)
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 60, "a silent minute"


def test_files_of_a_page_with_a_picture(local: LocalMode):
    out = local.folder / "first"
    record = json.loads((out / "report.json").read_text())
    assert [page["page"] for page in record["pages"]] == [1]
    assert json.dumps(record["weights"]).count('"demo": true') == 2
    labels = {block["block_label"] for block in record["pages"][0]["prunedResult"]["parsing_res_list"]}
    assert {"doc_title", "paragraph_title", "text"} <= labels
    linked = set(re.findall(r"images/[\w.-]+", (out / "report.md").read_text()))
    assert linked and linked == {f"images/{path.name}" for path in (out / "images").iterdir()}
    assert all((out / name).read_bytes().startswith(b"\xff\xd8\xff") for name in linked)


@pytest.mark.parametrize("name", ["letter", "invoice"])
def test_another_page_while_running(local: LocalMode, name: str):
    result = local.call(str(DATA / f"{name}.png"), "--out", name)
    assert result.returncode == 0, result.stderr
    assert "starting" not in result.stderr
    check_text(result.stdout, truth(name))


def test_pdf_of_three_pages(local: LocalMode):
    result = local.call(str(DATA / "handbook.pdf"), "--out", "pdf")
    assert result.returncode == 0, result.stderr
    record = json.loads((local.folder / "pdf/handbook.json").read_text())
    assert record["dataInfo"]["numPages"] == 3 and [page["page"] for page in record["pages"]] == [1, 2, 3]
    pages = truth("handbook")
    for page, expected in zip(record["pages"], pages, strict=True):
        check_text(page["markdown"]["text"], [expected])
    check_text(result.stdout, pages)


def test_readiness_names_the_weights(local: LocalMode):
    ready = get(f"{local.parser_url}/health/ready")
    assert ready["errorCode"] == 0
    assert json.dumps(ready).count('"demo": true') == 2
    assert get(f"{local.vlm_url}/v1/models")["data"][0]["id"] == "PaddleOCR-VL-0.9B"
