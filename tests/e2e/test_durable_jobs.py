# SPDX-License-Identifier: Apache-2.0
"""Jobs through the real chain, driven by the ``paddleocr`` package's own clients and command line; ``POST /parse``; the
web page's files.

The clients run in the parser's environment, which has the package.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.support.local_mode import LocalMode
from tests.support.paths import DATA, python_of
from tests.support.system_packages import needs
from tests.support.texts import distance

ENVIRONMENT = python_of("parser").parent
WAIT_S = 600


def fetch(url: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, data, headers or {}), timeout=WAIT_S) as answer:
        return answer.read()


@functools.cache
def parsed_directly(parser_url: str, name: str) -> list[dict]:
    """The pages that ``/layout-parsing`` gives."""
    body = json.dumps({"file": base64.b64encode((DATA / name).read_bytes()).decode()}).encode()
    answer = json.loads(fetch(f"{parser_url}/layout-parsing", body, {"Content-Type": "application/json"}))
    return answer["result"]["layoutParsingResults"]


def run(command: list[str | Path], folder: Path) -> str:
    """The output of a client that reaches nothing but the service."""
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "NO_PROXY": "*",
        "PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK": "True",
        "PADDLE_PDX_CACHE_HOME": str(folder / "cache"),
    }
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def comparable(markdown: str) -> str:
    """Without pictures' names: in a job they carry the page."""
    return re.sub(r'src="[^"]*"', 'src=""', markdown)


def check_equal(texts: list[str], direct: list[dict]) -> None:
    """The texts agree but for single characters: in bfloat16 a crop's text can depend on the crops of its batch.

    tests/jobs has a VLM that always answers the same, and asks for equality.
    """
    assert len(texts) == len(direct)
    for text, page in zip(texts, direct, strict=True):
        found, expected = comparable(text).strip(), comparable(page["markdown"]["text"]).strip()
        assert distance(found, expected) <= 0.01 * len(expected), f"{found}\n\n{expected}"


@pytest.mark.parametrize("name", ["report.png", pytest.param("handbook.pdf", marks=pytest.mark.long)])
def test_the_clients_get_what_layout_parsing_gives(local: LocalMode, tmp_path: Path, name: str):
    """The synchronous and then the asynchronous client; pictures are saved."""
    command: list[str | Path] = [
        ENVIRONMENT / "python",
        Path(__file__).with_name("job_clients.py"),
        local.parser_url,
        DATA / name,
        tmp_path,
    ]
    answers = json.loads(run(command, tmp_path))
    direct = parsed_directly(local.parser_url, name)
    for client in ("sync", "async"):
        check_equal([page["text"] for page in answers[client]], direct)
    pictures = [picture for page in direct for picture in (page["markdown"]["images"] or {}).values()]
    names = [name for page in answers["sync"] for name in page["pictures"]]  # besides them, drawings of the layout
    saved = [(tmp_path / "pictures" / name).read_bytes() for name in names]
    assert sorted(saved) == sorted(map(base64.b64decode, pictures)) and saved


def test_the_command_line(local: LocalMode, tmp_path: Path):
    run(
        [
            ENVIRONMENT / "paddleocr",
            "api",
            "--model_type",
            "doc_parsing",
            "--base_url",
            local.parser_url,
            "--token",
            "any",
            "--file_path",
            DATA / "handbook.pdf",
            "--page_ranges",
            "2-3",
            "--output",
            "result.json",
        ],
        tmp_path,
    )
    pages = json.loads((tmp_path / "result.json").read_text())["pages"]
    check_equal([page["markdownText"] for page in pages], parsed_directly(local.parser_url, "handbook.pdf")[1:])


@needs("curl")
def test_parse_prints_markdown(local: LocalMode, tmp_path: Path):
    text = run(["curl", "-sfF", f"file=@{DATA / 'report.png'}", f"{local.parser_url}/parse"], tmp_path)
    check_equal([text], parsed_directly(local.parser_url, "report.png"))


def test_the_web_page_and_its_files(local: LocalMode):
    page = fetch(f"{local.parser_url}/").decode()
    linked = re.findall(r'(?:src|href)="(/?ui/[^"]+)"', page)
    assert {Path(link).suffix for link in linked} >= {".js", ".css", ".svg"}
    for link in linked:
        assert fetch(f"{local.parser_url}/{link.lstrip('/')}")
