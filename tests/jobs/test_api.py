# SPDX-License-Identifier: Apache-2.0
"""The job API over HTTP: a real service with simulated page work."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import time
import zipfile
from base64 import b64decode
from io import BytesIO
from typing import Any

import httpx
import pypdfium2
import pytest
from PIL import Image

from docparser.convert.names import FORMATS
from docparser.jobs.links import PREFIX, sign
from tests.support.parser_process import JOBS
from tests.support.paths import ROOT
from tests.support.processes import child_environment
from tests.support.samples import PICTURE_NAME, image
from tests.support.samples import blank_pages as pdf
from tests.support.wait import wait_for


def test_a_job_from_submission_to_result(parser):
    job_id = parser.job(pdf(3), pageRanges="1,3", optionalPayload='{"visualize": true}')
    state = parser.ended(job_id)
    assert state["state"] == "done" and state["model"] == "PaddleOCR-VL-1.6"
    assert state["extractProgress"].items() >= {"totalPages": 2, "extractedPages": 2}.items()
    first, second = parser.lines(state["resultUrl"]["jsonUrl"])
    assert first["dataInfo"] == {"type": "pdf", "numPages": 2, "pages": [{"width": 100, "height": 140}] * 2}
    assert second["docparser"]["pages"] == [{"page": 3}] and second["docparser"]["partial"] is False
    assert second["docparser"]["models"]["vlm"]["model"] == state["docparser"]["model"] == "PaddleOCR-VL-0.9B"
    alone = parser.client.get(f"{JOBS}/{job_id}/pages/1").json()["result"]
    assert alone.keys() == {"layoutParsingResults", "docparser"}, "it says nothing of the other pages"
    (page,) = second["layoutParsingResults"]
    assert page["markdown"]["text"] == f'job-{job_id} page 3 <img src="page_0003_{PICTURE_NAME}">'
    for url in (page["inputImage"], *page["outputImages"].values(), *page["markdown"]["images"].values()):
        picture = httpx.get(url, trust_env=False)
        assert picture.headers["content-type"] == "image/jpeg" and picture.content.startswith(b"\xff\xd8")


def test_pages_can_be_seen_before_any_is_read(parser, vlm):
    with vlm.holding():
        for document, pages, number in ((pdf(3), "3", 2), (b64decode(image(size=(60, 40))), "1", 1)):
            job_id = parser.job(document)
            seen = parser.client.get(f"{JOBS}/{job_id}/originals/{number}")
            assert seen.status_code == 200, seen.text
            assert seen.headers["document-pages"] == pages and seen.headers["content-type"] == "image/jpeg"
            with Image.open(BytesIO(seen.content)) as picture:
                assert picture.size == ((60, 40) if pages == "1" else picture.size) and min(picture.size) >= 40
            beyond = parser.client.get(f"{JOBS}/{job_id}/originals/4")
            assert beyond.status_code == 404 and "page 4" in beyond.json()["msg"]
            assert parser.state(job_id)["docparser"]["pages"]["done"] == 0
        damaged = parser.job(b"%PDF-1.7 nothing")
        assert "damaged" in parser.client.get(f"{JOBS}/{damaged}/originals/1").json()["msg"]


def test_another_version_than_asked_for_is_never_silent(parser):
    """PaddleOCR-VL-1.6 is what the SDKs ask for by default; version 1 is loaded."""
    words = "PaddleOCR-VL-1.6 was asked for, but PaddleOCR-VL-0.9B is served here and reads the pages."
    answer = parser.submit(pdf(1), model="PaddleOCR-VL-1.6").json()["data"]
    assert answer["docparser"] == {"model": "PaddleOCR-VL-0.9B", "notes": [words]}
    for state in (parser.state(answer["jobId"]), parser.ended(answer["jobId"])):
        assert state["docparser"]["model"] == "PaddleOCR-VL-0.9B" and state["docparser"]["notes"] == [words]
    wait_for(lambda: f"job {answer['jobId']}: {words}" in parser.log.read_text(), what="the line in the log")
    for own in ("PaddleOCR-VL", "PaddleOCR-VL-0.9B"):
        answer = parser.submit(pdf(1), model=own).json()["data"]
        assert answer["docparser"] == {"model": "PaddleOCR-VL-0.9B", "notes": []}
        assert parser.ended(answer["jobId"])["docparser"]["notes"] == []


@pytest.mark.parametrize(
    "fields, words",
    [
        (
            {"optionalPayload": '{"promptLabel": "spotting"}'},
            "promptLabel: 'spotting' is no task of PaddleOCR-VL, which is served here and knows ocr, table, formula",
        ),
        (
            {"optionalPayload": '{"useDocUnwarping": true}'},
            "useDocUnwarping: this service has no model for it; send false",
        ),
        ({"model": "PP-OCRv5"}, "'PP-OCRv5' is not served"),
        ({"model": "PP-StructureV3"}, "'PP-StructureV3' is not served"),
        ({"pageRanges": "3-1"}, "pageRanges"),
        ({"optionalPayload": "{"}, "optionalPayload: not valid JSON"),
        ({"optionalPayload": '{"topP": 2}'}, "optionalPayload: topP"),
        ({"batchId": "x" * 200}, "batchId"),
    ],
)
def test_wrong_fields_are_named(parser, fields, words):
    answer = parser.submit(pdf(1), **fields)
    assert answer.status_code == 400 and words in answer.json()["msg"] == answer.json()["errorMsg"]


@pytest.mark.parametrize("document, words", [(b"", "empty"), (b"no document", "neither an image nor a PDF")])
def test_what_is_no_document_is_refused_at_once(parser, document, words):
    answer = parser.submit(document)
    assert answer.status_code == 400 and words in answer.json()["msg"]


def test_other_forms_of_a_submission(parser):
    client = parser.client
    assert "file: missing" in client.post(JOBS, data={"model": "PaddleOCR-VL"}).json()["msg"]
    url = {"model": "PaddleOCR-VL", "fileUrl": "http://127.0.0.1:1/a.pdf"}
    refused = client.post(JOBS, json=url)
    assert refused.status_code == 400 and refused.json()["msg"].startswith("fileUrl: this service fetches no URLs")
    inside = "data:application/pdf;base64," + base64.b64encode(pdf(1)).decode()
    accepted = client.post(JOBS, json=url | {"fileUrl": inside, "optionalPayload": {"visualize": False}})
    assert parser.ended(accepted.json()["data"]["jobId"])["state"] == "done"
    for kind in ("application/json", "Application/JSON", "application/job+json; charset=utf-8"):
        unfinished = client.post(JOBS, content=b"[", headers={"Content-Type": kind})
        assert unfinished.status_code == 400 and "JSON" in unfinished.json()["msg"], kind


def test_documents_that_cannot_be_opened_fail_with_the_reason(parser):
    state = parser.ended(parser.job(b"%PDF-1.4 broken"))
    assert state["state"] == "failed" and "file:" in state["errorMsg"]
    state = parser.ended(parser.job(pdf(2), pageRanges="2,7"))
    assert state["state"] == "failed" and "7 is not a page of the document" in state["errorMsg"]


def statuses(parser, job_id: str) -> set[int]:
    """Of whatever can be asked of a job."""
    asked = [("GET", ""), ("GET", "/events"), ("GET", "/pages/1"), ("GET", "/result"), ("GET", "/originals/1")]
    asked += [("POST", "/retry"), ("DELETE", ""), ("DELETE", "?purge=true")]
    return {parser.client.request(method, f"{JOBS}/{job_id}{path}").status_code for method, path in asked}


def test_unknown_jobs_and_addresses(parser):
    assert statuses(parser, "0" * 32) == {404}
    assert parser.client.get(f"{JOBS}/batch/none").status_code == 404
    url = parser.ended(parser.job(pdf(1)))["resultUrl"]["jsonUrl"]
    place, name = url.rsplit("/", 1)
    other = "1" if place[-1] == "0" else "0"  # the last digit of the signature, changed
    assert httpx.get(f"{place[:-1]}{other}/{name}", trust_env=False).status_code in (403, 404)
    assert httpx.get(url.replace("result.jsonl", "pages/1/page.json"), trust_env=False).status_code == 404


def test_a_repeated_submission_with_the_same_key_is_the_same_job(parser):
    key, document = {"Idempotency-Key": "retry-1"}, pdf(1)
    first = parser.submit(document, headers=key).json()["data"]["jobId"]
    assert parser.submit(document, headers=key).json()["data"]["jobId"] == first
    assert parser.submit(pdf(2), headers=key).status_code == 422


def test_failed_pages_are_reported_and_can_be_retried_alone(parser, vlm):
    (vlm.folder / "refuse").write_text("2")
    job_id = parser.job(pdf(3))
    state = parser.ended(job_id)
    assert state["state"] == "done" and state["errorMsg"].startswith("1 of 3 pages failed; page 2: the VLM refused")
    (failed,) = state["docparser"]["failedPages"]
    assert failed["page"] == 2
    lines = parser.lines(state["resultUrl"]["jsonUrl"])
    assert [bool(line["layoutParsingResults"][0]["markdown"]["text"]) for line in lines] == [True, False, True]
    assert lines[1]["docparser"]["pages"][0]["error"]["message"] == failed["message"]
    (vlm.folder / "refuse").unlink()
    asked = len(vlm.asked())
    assert parser.client.post(f"{JOBS}/{job_id}/retry").json()["data"]["pages"] == 1
    state = parser.ended(job_id)
    assert "errorMsg" not in state and vlm.asked()[asked:] == [f"job-{job_id} page 2"]


def test_all_pages_failed_is_a_failed_job(parser, vlm):
    (vlm.folder / "refuse").write_text("1 2")
    state = parser.ended(parser.job(pdf(2)))
    assert state["state"] == "failed" and state["errorMsg"].startswith("2 of 2 pages failed")


def test_progress_events_tell_each_page_and_go_on_where_they_broke_off(parser):
    job_id = parser.job(pdf(4))
    events = read_events(parser, job_id)
    assert {event["page"] for name, _, event in events if name == "page" and event["state"] == "done"} == {1, 2, 3, 4}
    assert events[-1][0] == "job" and events[-1][2]["state"] == "done"
    last = events[-1][1]
    assert [name for name, _, _ in read_events(parser, job_id, last)] == ["job"]


def read_events(parser, job_id: str, last: str = "") -> list[tuple[str, str, dict]]:
    headers = {"Last-Event-ID": last} if last else {}
    events = []
    with parser.client.stream("GET", f"{JOBS}/{job_id}/events", headers=headers) as stream:
        fields: dict[str, str] = {}
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                events.append((fields["event"], fields["id"], json.loads(fields["data"])))
                fields = {}
    return events


def test_results_in_other_formats(parser):
    job_id = parser.job(pdf(2), optionalPayload='{"visualize": true}')
    parser.ended(job_id)
    answers = {
        name: parser.client.get(f"{JOBS}/{job_id}/result?format={name}") for name in ("md", "html", "zip", "json")
    }
    assert all(answer.status_code == 200 for answer in answers.values())
    assert answers["md"].text.count(f"page_0001_{PICTURE_NAME}") == 1 and "page 2" in answers["md"].text
    assert "data:image/jpeg;base64," in answers["html"].text
    names = zipfile.ZipFile(BytesIO(answers["zip"].content)).namelist()
    assert {"a.md", "a.html", "a.json", *(f"page_{n:04}_{PICTURE_NAME}" for n in (1, 2))} == set(names)
    assert json.loads(zipfile.ZipFile(BytesIO(answers["zip"].content)).read("a.json")) == inside(answers["json"].json())
    assert "a.json" in answers["json"].headers["content-disposition"]
    assert not any("document-partial" in answer.headers for answer in answers.values())
    for page in answers["json"].json()["layoutParsingResults"]:
        for url in (page["inputImage"], *page["markdown"]["images"].values()):
            assert httpx.get(url, trust_env=False).content.startswith(b"\xff\xd8")
    assert parser.client.get(f"{JOBS}/{job_id}/result?format=exe").status_code == 400


def inside(result: dict[str, Any]) -> dict[str, Any]:
    """The result as an archive has it: its pictures are beside it."""
    pages = []
    for page in result["layoutParsingResults"]:
        images = {path: path for path in page["markdown"]["images"]}
        kept = {key: value for key, value in page.items() if key not in ("inputImage", "outputImages")}
        pages.append(kept | {"markdown": page["markdown"] | {"images": images}})
    return result | {"layoutParsingResults": pages}


def test_every_format_says_which_pages_lack_something(parser, vlm):
    (vlm.folder / "refuse").write_text("2 3")
    job_id = parser.job(pdf(5), pageRanges="1-3,5")
    parser.ended(job_id)
    answer = parser.client.get(f"{JOBS}/{job_id}/result")
    assert answer.headers["document-partial"] == "2-3"
    told = parser.client.get(f"{JOBS}/{job_id}/result", params={"format": "json"}).json()["docparser"]
    assert told["partial"] and [page["page"] for page in told["pages"]] == [2, 3]
    sent = {"files": {"file": ("a.pdf", pdf(3))}, "headers": {"X-Request-Id": "job-now"}}
    answer = parser.client.post("/parse", **sent, data={"options": '{"mergeTable": true, "\u6c34": 1}'})
    assert answer.headers["document-partial"] == "2-3"
    first, second = json.loads(answer.headers["document-notes"])
    assert first.startswith("mergeTable:") and "did you mean mergeTables?" in first and second.startswith("\u6c34:")


def test_tables_are_joined_as_the_job_asked(parser, vlm):
    rows = "<table><tr><td>a</td></tr></table>"
    blocks = [{"block_label": "table", "block_content": rows}]
    (vlm.folder / "say").write_text(json.dumps({"text": rows, "blocks": blocks}))
    for option, tables in (("mergeTables", 2), ("relevelTitles", 1)):
        job_id = parser.job(pdf(2), optionalPayload=json.dumps({option: False}))
        parser.ended(job_id)
        assert parser.client.get(f"{JOBS}/{job_id}/result").text.count("</table>") == tables, option
        sent = {"files": {"file": ("a.pdf", pdf(2))}, "data": {"options": json.dumps({option: False})}}
        parsed = parser.client.post("/parse", headers={"X-Request-Id": "job-now"}, **sent)
        assert parsed.text.count("</table>") == tables, option


def test_titles_are_levelled_as_was_asked(parser, vlm):
    blocks = [{"block_label": "paragraph_title", "block_content": text} for text in ("1 A", "1.1 B")]
    (vlm.folder / "say").write_text(json.dumps({"text": "## 1 A\n\n## 1.1 B", "blocks": blocks}))
    for option, levels in (("mergeTables", 2), ("relevelTitles", 1)):
        options = json.dumps({option: False})
        parser.ended(job_id := parser.job(pdf(1), optionalPayload=options))
        sent = {"files": {"file": ("a.pdf", pdf(1))}, "data": {"options": options}, "headers": {"X-Request-Id": "job-"}}
        for answer in (
            parser.client.get(f"{JOBS}/{job_id}/result?format=html"),
            parser.client.post("/parse?format=html", **sent),
        ):
            assert len(set(re.findall(r"<h([1-6])", answer.text))) == levels, option


def test_a_searchable_pdf_of_a_jobs_pages_and_of_an_upload(parser):
    job_id = parser.job(pdf(3), pageRanges="1,3")
    parser.ended(job_id)
    answer = parser.client.get(f"{JOBS}/{job_id}/result?format=pdf")
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/pdf"
    assert "filename*=UTF-8''a.pdf" in answer.headers["content-disposition"]
    found = [page.get_textpage().get_text_bounded() for page in pypdfium2.PdfDocument(answer.content)]
    assert [text.split()[-2:] for text in found] == [["page", "1"], ["page", "3"]]
    answer = parser.client.post("/parse?format=pdf", files={"file": ("scan.png", b64decode(image(size=(100, 140))))})
    assert answer.status_code == 200 and "scan.pdf" in answer.headers["content-disposition"]
    (page,) = pypdfium2.PdfDocument(answer.content)
    assert "page 1" in " ".join(page.get_textpage().get_text_bounded().split())
    assert not list((parser.log.parent / "spool").iterdir())


def test_chunks_are_as_long_as_was_asked_for(parser, vlm):
    (vlm.folder / "say").write_text(json.dumps({"text": " ".join(f"Sentence {number}." for number in range(99))}))
    parser.ended(job_id := parser.job(pdf(1)))
    files, headers = {"file": ("a.pdf", pdf(1))}, {"X-Request-Id": "job-now"}
    for get in (
        lambda query: parser.client.get(f"{JOBS}/{job_id}/result", params=query),
        lambda query: parser.client.post("/parse", params=query, files=files, headers=headers),
    ):
        few, many = (get({"format": "chunks", "chunkTokens": tokens}).text.count("\n") for tokens in (512, 32))
        assert many > 3 * few > 0


def test_chunks_and_word_files_of_a_job_and_of_an_upload(parser):
    job_id = parser.job(pdf(3), pageRanges="2-3")
    parser.ended(job_id)
    address = f"{JOBS}/{job_id}/result"
    answer = parser.client.get(address, params={"format": "chunks"})
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("application/x-ndjson")
    assert "filename*=UTF-8''a.chunks.jsonl" in answer.headers["content-disposition"]
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert {number for line in lines for number in line["pages"]} == {2, 3} and "page 2" in lines[0]["text"]
    word = parser.client.get(address, params={"format": "docx"})
    assert zipfile.ZipFile(BytesIO(word.content)).testzip() is None and "a.docx" in word.headers["content-disposition"]
    for query in ({"format": "docx"}, {"format": "chunks", "chunkTokens": 32}):
        answer = parser.client.post("/parse", params=query, files={"file": ("a.pdf", pdf(1))})
        assert answer.status_code == 200 and answer.content
    for wrong in ("31", "8193", "x", ""):
        query = {"format": "chunks", "chunkTokens": wrong}
        answer = parser.client.post("/parse", params=query, files={"file": ("a.pdf", pdf(1))})
        assert answer.status_code == 422 and "chunkTokens" in answer.json()["errorMsg"]
        answer = parser.client.get(address, params=query)
        assert answer.status_code == 400 and "chunkTokens" in answer.json()["msg"]


def test_escaped_markdown_of_a_job_and_of_an_upload(parser):
    job_id = parser.job(pdf(1))
    parser.ended(job_id)
    address = f"{JOBS}/{job_id}/result"
    for begin, get in (
        ("page_0001_", lambda query: parser.client.get(address, params=query)),
        ("imgs/", lambda query: parser.client.post("/parse", params=query, files={"file": ("a.pdf", pdf(1))})),
    ):
        placed = f'<div style="text-align: center;"><img src="{begin}{PICTURE_NAME}"'
        for format in ("md", "zip"):
            query = {"format": format, "escapeMarkdown": "true"}
            escaped, plain = get(query), get({"format": format})
            assert escaped.status_code == plain.status_code == 200
            texts = [answer.content for answer in (escaped, plain)]
            if format == "zip":
                texts = [zipfile.ZipFile(BytesIO(content)).read("a.md") for content in texts]
            assert [placed.encode() in text for text in texts] == [True, False]
    assert get({"escapeMarkdown": "perhaps"}).status_code == 422


def test_a_pdf_that_cannot_be_changed_is_refused_in_this_format_alone(parser):
    """PDFium believes the number of pages that the file says; qpdf counts them."""
    odd = pdf(2).replace(b"/Count 2", b"/Count 3")
    answer = parser.client.post("/parse?format=pdf", files={"file": ("odd.pdf", odd)})
    assert answer.status_code == 422 and "ask for another format" in answer.json()["errorMsg"]
    job_id = parser.job(odd, pageRanges="1-2")
    parser.ended(job_id)
    answer = parser.client.get(f"{JOBS}/{job_id}/result?format=pdf")
    assert answer.status_code == 422 and "it has 3 pages or 2" in answer.json()["msg"]
    assert parser.client.get(f"{JOBS}/{job_id}/result?format=md").status_code == 200
    assert not list((parser.log.parent / "spool").iterdir())


def test_the_service_itself_loads_no_library_of_the_formats_and_none_of_other_stores():
    """It stays small, and strangers' texts meet the formats' libraries in child processes."""
    names = {"pikepdf", "docx", "openpyxl", "nh3", "latex2mathml", "psycopg", "boto3", "botocore"}
    code = f"import sys, docparser.app; print(*{names} & sys.modules.keys())"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=child_environment(), capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_web_page_offers_every_format():
    menu = (ROOT / "parser/docparser/web/static/downloads.js").read_text()
    (listed,) = re.findall(r"^export const FORMATS = \[(.*)\];$", menu, re.MULTILINE)
    assert set(re.findall('"([a-z]+)"', listed)) == set(FORMATS)


def test_parse_prints_markdown(parser):
    answer = parser.client.post("/parse", files={"file": ("a.pdf", pdf(1))})
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/markdown")
    assert "page 1" in answer.text
    assert parser.client.post("/parse", files={"file": ("a", b"x")}).status_code == 422


def test_purging_removes_document_and_results(parser):
    job_id = parser.job(pdf(1))
    url = parser.ended(job_id)["resultUrl"]["jsonUrl"]
    assert parser.client.delete(f"{JOBS}/{job_id}?purge=true").status_code == 200
    assert parser.client.get(f"{JOBS}/{job_id}").status_code == 404
    assert httpx.get(url, trust_env=False).status_code == 404
    assert not (parser.log.parent / "data/jobs" / job_id).exists()


def test_cancel_frees_the_queue_and_partial_results_stay(start):
    vlm = start.vlm(0.3)
    parser = start.parser(PARSER_PAGES_IN_FLIGHT="1").wait()
    job_id = parser.job(pdf(60))
    state = parser.wait_for(job_id, lambda state: state["docparser"]["pages"]["done"] >= 2)
    assert state["docparser"]["partial"] is True and "resultUrl" not in state
    partial = parser.lines(state["docparser"]["partialUrl"])
    assert len(partial) >= 2 and all(line["docparser"]["partial"] for line in partial)
    assert parser.client.get(f"{JOBS}/{job_id}/pages/1").status_code == 200
    assert parser.client.get(f"{JOBS}/{job_id}/pages/60").status_code == 409
    with vlm.holding():
        for _ in range(2):
            cancelled = parser.client.delete(f"{JOBS}/{job_id}")
            assert cancelled.status_code == 200 and cancelled.json()["data"]["state"] == "failed"
        assert parser.client.get("/capacity").json()["result"]["pages"]["queued"] == 0
        asked = len(vlm.asked())
    wait_for(lambda: parser.client.get("/capacity").json()["result"]["pages"]["running"] == 0)
    assert len(vlm.asked()) <= asked + 1 < 60  # but for one page on its way, nothing of it is worked on any more
    state = parser.state(job_id)
    assert (
        state["state"] == "failed"
        and state["docparser"]["cancelled"]
        and state["errorMsg"] == "cancelled by the client"
    )


def test_two_processes_share_jobs_and_a_job_outlives_the_one_that_took_it(start):
    start.vlm(0.2)
    first, second = start.parser(PARSER_PAGES_IN_FLIGHT="1"), start.parser(PARSER_PAGES_IN_FLIGHT="1")
    first.wait(), second.wait()
    job_id = first.job(pdf(12))
    second.wait_for(job_id, lambda state: state["docparser"]["pages"]["done"] >= 2)
    first.kill()
    state = second.ended(job_id)
    assert state["state"] == "done" and state["docparser"]["pages"]["done"] == 12
    assert len(second.lines(state["resultUrl"]["jsonUrl"])) == 12


def test_behind_a_proxy_with_keys(start):
    keys = {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in ("one", "two")}
    start.vlm()
    parser = start.parser(PARSER_API_KEYS=",".join(keys.values()), PUBLIC_URL="https://docs.example/parser/").wait()
    assert parser.submit(pdf(1)).status_code == 401
    parser.client.headers["Authorization"] = "Bearer one"
    job_id = parser.job(pdf(1), batchId="b")
    url = parser.ended(job_id)["resultUrl"]["jsonUrl"]
    assert url.startswith(f"https://docs.example/parser/api/v2/ocr/results/{job_id}/")
    inside = url.replace("https://docs.example/parser", parser.url)
    assert httpx.get(inside, trust_env=False).status_code == 200  # the address is the permission
    assert httpx.get(f"{parser.url}/", trust_env=False).status_code == 200
    parser.client.headers["Authorization"] = "Bearer two"
    assert statuses(parser, job_id) == {404} and parser.client.get(f"{JOBS}/batch/b").status_code == 404
    parser.client.headers["Authorization"] = "Bearer one"
    assert parser.state(job_id)["state"] == "done", "nothing of it has changed"
    assert inside.split("/")[8] not in parser.log.read_text()


def test_what_an_address_opens_lives_no_longer_than_it(parser):
    """Else an address that was seen once would open the result as long as the job is kept."""
    job_id = parser.job(pdf(1))
    parser.ended(job_id)
    key, end = (parser.log.parent / "data" / "links.key").read_bytes(), int(time.time()) + 60
    permission = f"{end}-{sign(key, job_id, end)}"
    found = httpx.get(f"{parser.url}{PREFIX}/{job_id}/{permission}/result.jsonl", trust_env=False)
    assert found.status_code == 200 and found.headers["cache-control"] == "no-store"
    addresses = re.findall(rf"{parser.url}{PREFIX}/[0-9a-f]+/[^\"]+", found.text)
    assert addresses and all(f"/{permission}/" in address for address in addresses)
    picture = httpx.get(addresses[0], trust_env=False)
    kept = re.fullmatch(r"private, max-age=(\d+)", picture.headers["cache-control"])
    assert picture.status_code == 200 and kept and int(kept[1]) <= 60


def test_what_a_key_opens_is_kept_nowhere(parser):
    job_id = parser.job(pdf(1))
    parser.ended(job_id)
    assert parser.client.get(f"{JOBS}/{job_id}/pages/1").headers["cache-control"] == "no-store"
