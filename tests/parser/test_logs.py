# SPDX-License-Identifier: Apache-2.0
"""The log of a running service at its most verbose level: JSON lines without document content and without keys."""

from __future__ import annotations

import json

from docparser.clients.keys import digest
from tests.support import samples

KEY, VLM_KEY = "client-key-4711-wexcombe", "server-key-0815-wexcombe"
WORDS = "the-patients-diagnosis"


def test_no_content_and_no_keys(start_service, vlm):
    service = start_service(
        VLM_URL=vlm.url, PARSER_LOG_LEVEL="debug", PARSER_API_KEYS=f"sha256:{digest(KEY)}", PARSER_VLM_API_KEY=VLM_KEY
    ).wait()
    service.client.headers["Authorization"] = f"Bearer {KEY}"
    page = samples.image(size=(600, 800))
    vlm.answer = lambda request, number: f"{WORDS} {number}"
    assert WORDS in service.page(page)["markdown"]["text"]
    vlm.answer = lambda request, number: (400, f"cannot read {WORDS}") if number % 2 else (500, WORDS)
    assert service.parse(page).status_code in (422, 503)  # whichever block came first
    vlm.answer = lambda request, number: WORDS * 500  # a loop
    assert service.parse(page, visualize=True, outputFormats=["docx"]).status_code == 200
    damaged = samples.encode(b"%PDF-1.4\n" + WORDS.encode() * 50)
    assert service.parse(damaged).status_code == 422
    assert service.parse(f"{WORDS}!").status_code == 422
    assert service.client.get("/metrics", headers={"Authorization": f"token {KEY}x"}).status_code == 401
    files = {"file": (f"{WORDS}.png", b"no image")}
    assert service.client.post("/parse", files=files).status_code == 422
    assert service.client.get(f"/api/v2/ocr/jobs/{WORDS}").status_code == 404

    log = service.log.read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    assert any("/layout-parsing 200" in line["message"] for line in lines), log
    for secret in (KEY, VLM_KEY, digest(KEY), page[:60], page[-60:], damaged[:60]):
        assert secret not in log, f"{secret} is in the log"
    # A path that a client asked for is in its access line; it is no document.
    assert not [line for line in lines if WORDS in json.dumps(line) and "/api/v2/ocr/jobs/" not in line["message"]]
