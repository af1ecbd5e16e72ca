# SPDX-License-Identifier: Apache-2.0
"""Of a running service neither its processes nor its log give away keys, passwords and what documents say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import isolation
from docparser.clients.keys import digest
from tests.support import samples
from tests.support.parser_process import ParserProcess
from tests.support.processes import child_environment
from tests.support.wait import WAIT_S

KEY, VLM_KEY = "client-key-4711-wexcombe", "server-key-0815-wexcombe"
WORDS = "the-patients-diagnosis"
WITHOUT_PRIVILEGES = (sys.executable, "-m", "tests.support.without_privileges")
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-the-bucket",
    "PGPASSWORD": "s3cr3t-of-the-database",
    "PARSER_CALLBACK_SECRETS": "whsec_czNjcjN0IG9mIGNhbGxiYWNrcywgMjQgYnl0ZXM=",
    "PARSER_API_KEYS": f"sha256:{digest(KEY)}",
    "PARSER_VLM_API_KEY": VLM_KEY,
    "VLM_API_KEY": "s3cr3t-of-the-vlm",
    "SOMEBODYS_TOKEN": "s3cr3t-of-another",
}
READER = """
import sys
for pid in sys.argv[1:]:
    try:
        print(pid, open(f"/proc/{pid}/environ", "rb").read())
    except PermissionError:
        print("closed")
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory, layout_model, _vlm) -> Iterator[ParserProcess]:
    settings = {"VLM_URL": _vlm.url, "LAYOUT_MODEL_DIR": str(layout_model), "PARSER_LOG_LEVEL": "debug"}
    service = ParserProcess(tmp_path_factory.mktemp("secrets"), WITHOUT_PRIVILEGES, **settings, **SECRETS)
    service.client.headers["Authorization"] = f"Bearer {KEY}"
    try:
        yield service.wait()
    finally:
        service.end()


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found


def test_of_its_processes_nothing_can_be_had(service):
    """Each is hidden, and none but the service itself got a secret; a page is read meanwhile."""
    files = {"file": samples.save(samples.picture((800, 1000)), "PNG")}
    assert service.client.post("/parse", files=files).status_code == 200
    assert service.client.get("/health/ready").json()["result"]["isolation"] == {"lacks": isolation.lacking()}
    assert '"process": "worker-0"' in service.log.read_text(), "a worker is named in the log, though started by itself"
    pids = family(service.process.pid)
    assert len(pids) >= 5, "the service, its zygote, a worker, its zygote, a renderer"
    for pid in pids[1:]:  # the tests may be root
        content = Path(f"/proc/{pid}/environ").read_bytes()
        assert not [name for name, value in SECRETS.items() if value.encode() in content], Path(f"/proc/{pid}/cmdline")
    words = [*WITHOUT_PRIVILEGES, sys.executable, "-c", READER, *map(str, pids)]
    done = subprocess.run(words, env=child_environment(), capture_output=True, text=True, timeout=WAIT_S)
    assert done.stdout.split("\n") == ["closed"] * len(pids) + [""], done.stderr


def test_no_content_and_no_keys_are_in_the_log(service, vlm):
    """At its most verbose level it is JSON lines."""
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
    for secret in (KEY, *SECRETS.values(), digest(KEY), page[:60], page[-60:], damaged[:60]):
        assert secret not in log, f"{secret} is in the log"
    # A path that a client asked for is in its access line; it is no document.
    assert not [line for line in lines if WORDS in json.dumps(line) and "/api/v2/ocr/jobs/" not in line["message"]]
