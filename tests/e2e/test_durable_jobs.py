# SPDX-License-Identifier: Apache-2.0
"""Jobs through the real chain, driven by the ``paddleocr`` package's own client; the web page's files.

The client runs in the parser's environment, which has the package.
"""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.support.local_mode import LocalMode
from tests.support.paths import DATA, python_of
from tests.support.texts import distance

ENVIRONMENT = python_of("parser").parent
WAIT_S = 600


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        return answer.read()


def parsed_directly(folder: Path, name: str) -> tuple[list[str], list[bytes]]:
    """The texts and the pictures that ``/layout-parsing`` gave."""
    pages = json.loads((folder / f"{Path(name).stem}.json").read_text())["pages"]
    return [page["markdown"]["text"] for page in pages], [path.read_bytes() for path in (folder / "images").iterdir()]


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


def check_equal(texts: list[str], direct: list[str]) -> None:
    """The texts agree but for single characters: in bfloat16 a crop's text can depend on the crops of its batch.

    tests/jobs has a VLM that always answers the same, and asks for equality.
    """
    assert len(texts) == len(direct)
    for text, page in zip(texts, direct, strict=True):
        found, expected = comparable(text).strip(), comparable(page).strip()
        assert distance(found, expected) <= 0.01 * len(expected), f"{found}\n\n{expected}"


@pytest.mark.parametrize(
    ("name", "direct"), [("report.png", "first"), pytest.param("handbook.pdf", "pdf", marks=pytest.mark.long)]
)
def test_the_client_gets_what_layout_parsing_gives(
    local: LocalMode, tmp_path: Path, request: pytest.FixtureRequest, name: str, direct: str
):
    """Pictures are saved."""
    if direct == "pdf":
        request.getfixturevalue("handbook")
    command: list[str | Path] = [
        ENVIRONMENT / "python",
        Path(__file__).with_name("job_client.py"),
        local.parser_url,
        DATA / name,
        tmp_path / "pictures",
    ]
    (tmp_path / "pictures").mkdir()
    pages = json.loads(run(command, tmp_path))
    texts, pictures = parsed_directly(local.folder / direct, name)
    check_equal([page["text"] for page in pages], texts)
    names = [name for page in pages for name in page["pictures"]]  # besides them, drawings of the layout
    assert sorted((tmp_path / "pictures" / name).read_bytes() for name in names) == sorted(pictures) and pictures


def test_the_web_page_and_its_files(local: LocalMode):
    page = fetch(f"{local.parser_url}/").decode()
    linked = re.findall(r'(?:src|href)="(/?ui/[^"]+)"', page)
    assert {Path(link).suffix for link in linked} >= {".js", ".css", ".svg"}
    for link in linked:
        assert fetch(f"{local.parser_url}/{link.lstrip('/')}")
