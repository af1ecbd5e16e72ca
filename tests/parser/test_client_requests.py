# SPDX-License-Identifier: Apache-2.0
"""The exact requests of programs that are no Python packages, of old and new versions, and what these read of the
answers. `tests/api/test_clients.py` runs clients that are. `test_contract.py` has those of RAGFlow up to v0.26.0, of
WeKnora and of Open WebUI."""

from __future__ import annotations

import base64
import json

import httpx
import pytest

from tests.support import samples
from tests.support.parser_process import JOBS, ParserProcess

KEY = "any"
PDF = samples.pdf_bytes((595, 842), (595, 842))
PNG = samples.save(samples.picture(), "PNG")
# What RAGFlow makes of its settings, in both ways that it knows.
RAGFLOW = {
    "prettifyMarkdown": True,
    "showFormulaNumber": True,
    "visualize": False,
    "useDocOrientationClassify": False,
    "useDocUnwarping": False,
    "formatBlockContent": True,
    "mergeLayoutBlocks": False,
    "restructurePages": False,
}


def ended(service: ParserProcess, job_id: str, **headers: str) -> dict:
    """`data` of a job that is done."""
    state = service.ended(job_id, headers)
    assert state["state"] == "done", state
    return state


def lines(service: ParserProcess, state: dict) -> list[dict]:
    """`result` of each line of a job's JSON lines, which are fetched without a key."""
    text = service.client.get(state["resultUrl"]["jsonUrl"]).text
    return [json.loads(line)["result"] for line in text.strip().split("\n")]


class TestRagflow:
    """From v0.26.1 it submits jobs to the base address; later it asks /layout-parsing below it again, unless the host
    is the hosted one's."""

    HEADERS = {"Client-Platform": "ragflow", "Authorization": "Bearer any"}

    @pytest.mark.parametrize("model", ["PaddleOCR-VL", "PaddleOCR-VL-1.5", "PaddleOCR-VL-1.6"])
    def test_as_a_job(self, service, model):
        probe = service.client.post(JOBS, data={"model": model}, headers=self.HEADERS)
        assert probe.status_code == 400, "any answer but 401 and 403 lets its settings be saved"
        form = {"model": model, "optionalPayload": json.dumps(RAGFLOW)}
        files = {"file": ("document.pdf", PDF)}
        submitted = service.client.post(JOBS, data=form, files=files, headers=self.HEADERS)
        assert submitted.status_code == 200, submitted.text
        pages = lines(service, ended(service, submitted.json()["data"]["jobId"], **self.HEADERS))
        entries = [entry for page in pages for entry in page["layoutParsingResults"]]
        assert len(entries) == 2
        blocks = entries[1]["prunedResult"]["parsing_res_list"]
        assert blocks[1]["block_content"].startswith("# OCR:") and len(blocks[1]["block_bbox"]) == 4

    def test_an_image_as_a_job(self, service):
        """It calls every file document.pdf."""
        form = {"model": "PaddleOCR-VL", "optionalPayload": json.dumps(RAGFLOW)}
        submitted = service.client.post(JOBS, data=form, files={"file": ("document.pdf", PNG)}, headers=self.HEADERS)
        (page,) = lines(service, ended(service, submitted.json()["data"]["jobId"]))
        assert page["layoutParsingResults"][0]["prunedResult"]["parsing_res_list"][0]["block_content"]

    def test_below_the_base_address(self, service):
        assert service.client.get("/layout-parsing", headers=self.HEADERS).status_code == 405, "reachable"
        body = {"file": samples.encode(PDF), "fileType": 0, "returnMarkdownImages": False, **RAGFLOW}
        answer = service.client.post("/layout-parsing", json=body, headers={"Client-Platform": "ragflow"}).json()
        assert answer["errorCode"] == 0
        first, second = answer["result"]["layoutParsingResults"]
        assert second["prunedResult"]["parsing_res_list"][1]["block_content"].startswith("# OCR:"), "formatBlockContent"
        assert "images" not in first["markdown"] and "outputImages" not in first


def test_cherry_studio(service):
    """Its field takes the full address, and `useTextlineOrientation` is no option of ours."""
    body = {
        "file": samples.encode(PDF),
        "fileType": 0,
        "useDocOrientationClassify": False,
        "useDocUnwarping": False,
        "useTextlineOrientation": False,
        "useChartRecognition": False,
    }
    answer = service.client.post("/layout-parsing", json=body, headers={"Authorization": "token any"}).json()
    assert answer["errorCode"] == 0 and answer["errorMsg"] == "Success"
    assert [entry["markdown"]["text"][:5] for entry in answer["result"]["layoutParsingResults"]] == ["# OCR"] * 2


class TestSdks:
    """TypeScript's (@paddleocr/api-sdk 0.2.3) and Go's, which send and read the same."""

    HEADERS = {"Authorization": "Bearer any", "Client-Platform": "tests"}

    def test_a_file(self, service):
        form = {
            "model": "PaddleOCR-VL-1.6",
            "optionalPayload": json.dumps({"visualize": False}),
            "pageRanges": "2",
            "batchId": "sdk",
        }
        submitted = service.client.post(JOBS, data=form, files={"file": ("a.pdf", PDF)}, headers=self.HEADERS).json()
        assert submitted["code"] == 0 and submitted["data"]["jobId"]
        state = ended(service, submitted["data"]["jobId"], **self.HEADERS)
        assert state["extractProgress"]["totalPages"] == state["extractProgress"]["extractedPages"] == 1
        (page,) = lines(service, state)
        assert page["layoutParsingResults"][0]["markdown"]["text"].startswith("# OCR")
        batch = service.client.get(f"{JOBS}/batch/sdk", headers=self.HEADERS).json()["data"]
        assert [job["jobId"] for job in batch["extractResult"]] == [submitted["data"]["jobId"]]

    def test_a_data_url(self, service):
        body = {
            "fileUrl": f"data:image/png;base64,{samples.encode(PNG)}",
            "model": "PaddleOCR-VL-1.6",
            "optionalPayload": {},
        }
        submitted = service.client.post(JOBS, json=body, headers=self.HEADERS).json()
        assert ended(service, submitted["data"]["jobId"])["state"] == "done"

    def test_a_url_that_is_not_fetched_names_the_way_that_works(self, service):
        body = {"fileUrl": "https://example.org/a.pdf", "model": "PaddleOCR-VL-1.6", "optionalPayload": {}}
        refused = service.client.post(JOBS, json=body, headers=self.HEADERS)
        assert refused.status_code == refused.json()["code"] == 400
        assert refused.json()["msg"] == (
            "fileUrl: this service fetches no URLs (PARSER_URL_HOSTS is empty); send the document itself, as the part "
            "`file` of multipart/form-data or as a data: URL"
        )


def test_weknora_with_a_key_in_its_address(guarded):
    """Go's client sends user info of an address as Basic; WeKnora has no field for a key."""
    user = base64.b64encode(b"any:" + KEY.encode()).decode()
    body = {"file": samples.image(size=(100, 140)), "fileType": 1, "useLayoutDetection": True, "visualize": False}
    answer = guarded.client.post("/layout-parsing", json=body, headers={"Authorization": f"Basic {user}"})
    assert answer.status_code == 200 and answer.json()["result"]["layoutParsingResults"]
    with httpx.Client(base_url=guarded.url.replace("://", f"://any:{KEY}@"), trust_env=False) as client:
        assert client.get("/usage").json()["result"]["name"] == "free"


class TestDify:
    """Its plugin (0.2.10) cannot be set up, and docs/clients.md says why; what it would ask is refused in words."""

    def test_the_check_of_its_settings(self, service):
        address = "https://example.org/general_ocr_002.png"
        body = {"fileUrl": address, "model": "PP-OCRv5", "optionalPayload": {}}
        refused = service.client.post(JOBS, json=body, headers={"Authorization": "Bearer any"})
        assert refused.status_code == 400 and "fetches no URLs" in refused.json()["msg"]
        form = {"model": "PP-OCRv5", "optionalPayload": "{}"}
        refused = service.client.post(JOBS, data=form, files={"file": ("a.png", PNG)})
        assert refused.status_code == 400 and refused.json()["msg"].startswith("model: 'PP-OCRv5' is not served here")

    def test_its_http_request_node(self, service):
        """The recipe: a workflow's node sends a form with the file and reads the body as text."""
        answer = service.client.post("/parse", files={"file": ("a.png", PNG)}, params={"format": "md"})
        assert answer.status_code == 200 and answer.text.startswith("# OCR:")
        assert answer.headers["Content-Type"].startswith("text/markdown")
