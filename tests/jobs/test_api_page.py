# SPDX-License-Identifier: Apache-2.0
"""docs/api.md: its commands work as pasted, and each interface has one.

The service is real with simulated page work. Two things differ from pasting: the port, and that curl fails when the
service answers with an error.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.system_packages import needs

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/api.md").read_text()
ADDRESS = "http://127.0.0.1:8080"

# By heading, what must stand in the output of its commands.
OUTPUTS = {
    "`POST /parse`: a file, its Markdown": [r"page 1 <img", r"<!doctype html>"],
    "Jobs: `/api/v2/ocr/jobs`": [
        r"event: page\n",
        r"event: job\n",
        r'"state": ?"done"',
        r'"layoutParsingResults"',
        r"page 3 <img",
        r'"pages": ?0',
        r'"purged": ?true',
        r'"batchId": ?"monday"',
        r'"pagesPerMinute"',
    ],
    "The OpenAI API: `/v1/chat/completions`": [
        r'"object": ?"list"',
        r'"delta":{"content":"[^"]* page 1',
        r"data: \[DONE\]",
    ],
    "Mistral's OCR API: `/v1/ocr`": [
        r"page 1 !\[img-0.jpeg\]",
        r'/v1/files/[0-9a-f]{32}/content"',
        r'"index": ?2',
        r'"deleted": ?true',
    ],
    "docling-serve's API: `/v1/convert`": [
        r"page 1 <!-- image -->",
        r'"task_status": ?"success"',
        r'"schema_name": ?"DoclingDocument"',
        r'"task_id": ?"[0-9a-f]{32}-md"',
    ],
    "Other software": [r"page 3"],
    "`POST /layout-parsing`": [r"page 1 <img"],
    "`POST /restructure-pages`": [r'"errorCode": ?0', r"page 3"],
    "Keys": [r"sha256:[0-9a-f]{64}"],
    "Health, metrics, logs": [r'"errorCode": ?0', r"# TYPE \w+ counter", r'"documents": ?\["PDF"'],
}

# Addresses of results, which the service makes and commands fetch from its answers; and what is for browsers.
NOT_TYPED = ("/api/v2/ocr/results/", "/ui/", "/docs", "/openapi.json")


def commands() -> dict[str, str]:
    """The shell blocks under each heading of second level, as one script."""
    found = {}
    for section in PAGE.split("\n## ")[1:]:
        if blocks := re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            found[section.splitlines()[0]] = "\n".join(blocks)
    return found


def test_every_heading_with_commands_is_tested():
    assert commands().keys() == OUTPUTS.keys()


@needs("curl")
@pytest.mark.parametrize("heading", OUTPUTS)
def test_commands_work_as_pasted(parser, tmp_path: Path, heading: str):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/data").symlink_to(ROOT / "tests/data")
    (tmp_path / ".venvs").mkdir()
    (tmp_path / ".venvs/parser").symlink_to(Path(sys.executable).parents[1])
    (tmp_path / ".curlrc").write_text("fail-with-body\nshow-error\n")
    script = "set -euo pipefail\n" + commands()[heading].replace(ADDRESS, parser.url)
    env = {
        "PATH": "/usr/bin:/bin",
        "CURL_HOME": str(tmp_path),
        "HOME": str(tmp_path),
        "NO_PROXY": "*",
        "PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK": "True",
    }
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{done.stderr[-2000:]}\n{done.stdout[-2000:]}"
    missing = [pattern for pattern in OUTPUTS[heading] if not re.search(pattern, done.stdout)]
    assert not missing, f"not in the output: {missing}\n{done.stdout[-4000:]}"


def test_every_interface_has_a_command(parser):
    lines = [line for script in commands().values() for line in script.splitlines() if ADDRESS in line]
    found = [re.search(rf"{ADDRESS}(/[^ '\"?]*)", line) for line in lines]
    typed = [match[1] for match in found if match]
    methods = [
        "DELETE" if "-sX DELETE" in line else "POST" if re.search(r" -[sH]*F |-d @-|-sX POST", line) else "GET"
        for line in lines
        if f"{ADDRESS}/" in line
    ]
    calls = set(zip(methods, typed, strict=True))
    interfaces = {
        (method.upper(), path)
        for path, operations in json.loads(parser.client.get("/openapi.json").text)["paths"].items()
        for method in operations
        if not path.startswith(NOT_TYPED) and path != "/"
    }
    assert len(interfaces) >= 12
    without = [
        (method, path)
        for method, path in sorted(interfaces)
        if not any(
            method == called and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), address) for called, address in calls
        )
    ]
    assert without == []
