# SPDX-License-Identifier: Apache-2.0
"""parse_folder.py --vlm: real parsers, started for simulated VLM servers."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from batch.local_parsers import model_at, workers
from reference.prompts import HUNYUAN_TASKS
from tests.support.paths import DATA, DEMO_LAYOUT, ROOT, python_of
from tests.support.simulated_vlm import SimulatedVlm
from tests.support.wait import wait_for
from tests.support.whole_page_vlm import WholePageVlm
from tests.tools.calls import call

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not python_of("parser").is_file(), reason="needs the environment parser"),
]
DOCUMENT = DATA / "handbook.pdf"


@pytest.mark.parametrize(
    ("cores", "gibibytes", "share", "number"),
    [
        (2, 8, 2, 1),
        (2, 8, 4, 1),
        (16, 64, 2, 4),
        (640, 512, 2, 32),
        (640, 512, 32, 7),
        (640, 26, 2, 4),
        (8, None, 2, 2),
    ],
)
def test_workers_of_a_share_of_the_machine(cores: int, gibibytes: int | None, share: int, number: int) -> None:
    """On a node of 640 cores, too: a parser refuses more than 64."""
    assert workers(cores, gibibytes and gibibytes << 30, share) == number


@pytest.fixture
def vlms() -> Iterator[list[SimulatedVlm]]:
    """Two simulated VLM servers, which answer each crop with the same words."""
    running = [SimulatedVlm() for _ in range(2)]
    for vlm in running:
        vlm.answer = lambda request, number: "river stone paper"
    yield running
    for vlm in running:
        vlm.close()


def none_is_left(stderr: str) -> bool:
    """Whether the ports of the parsers that were started are free again."""
    ports = re.findall(r"parse_folder-parser-(\d+)\.log", stderr)
    assert ports
    with socket.socket() as trial:
        return all(trial.connect_ex(("127.0.0.1", int(port))) for port in ports)


# The demo layout model, whatever VLM_MODEL says outside, without a graph for OpenVINO, which takes seconds to make.
# What the site's parser is given does not concern these: keys that clients must send, addresses, queue, folder, log,
# VLM servers.
SETTINGS = {
    "LAYOUT_MODEL_DIR": str(DEMO_LAYOUT),
    "LAYOUT_ENGINE": "paddle",
    "PARSER_API_KEYS": "sha256:" + "0" * 64,
    "PUBLIC_URL": "https://ocr.example.org",
    "PARSER_PUBLISHED_ADDRESS": "192.0.2.1",
    "PARSER_ALLOWED_ORIGINS": "https://app.example.org",
    "PARSER_DATABASE_URL": "postgresql://127.0.0.1:9/jobs",
    "PARSER_SPOOL_DIR": "/nowhere",
    "PARSER_AUDIT_LOG": "/nowhere/audit.log",
    "PARSER_CALLBACK_HOSTS": "hooks.example.org",
    "VLM_FURTHER_URLS": "http://127.0.0.1:9/v1",
}


def test_a_server_says_what_it_serves_to_the_key_that_its_parser_sends(vlms):
    vlms[0].key, vlms[0].model = "s3cret", "HunyuanOCR"
    own = {"VLM_MODEL": "PaddleOCR-VL-1.6", "PARSER_VLM_API_KEY": "s3cret"}
    assert model_at(vlms[0].url, own) == {"VLM_MODEL": "HunyuanOCR"}
    assert model_at(vlms[0].url, {**own, "PARSER_VLM_API_KEY": "another"}) == {}


@pytest.mark.long
def test_each_vlm_server_gets_a_parser(tmp_path, vlms):
    words = [word for vlm in vlms for word in ("--vlm", vlm.url)]
    done = call("parse_folder.py", DOCUMENT, "--out", tmp_path / "out", "--concurrency", 1, *words, env=SETTINGS)
    assert done.returncode == 0 and "Pages: 3 parsed" in done.stdout
    assert "river stone paper" in (tmp_path / "out/handbook.pdf/handbook.md").read_text()
    assert all(vlm.requests for vlm in vlms), "both must have read blocks"
    assert len(re.findall("starting a parser for", done.stderr)) == 2 and none_is_left(done.stderr)
    again = call("parse_folder.py", DOCUMENT, "--out", tmp_path / "out", "--formats", "docx", *words, env=SETTINGS)
    assert again.returncode == 0 and "starting a parser" not in again.stderr, "no page is left to parse"


def test_a_vlm_that_reads_whole_pages_gets_a_parser_for_it(tmp_path):
    """What the server says it serves decides how the parser reads; no setting names the model. The simulated server
    refuses all but whole pages in HunyuanOCR's words."""
    vlm = WholePageVlm("HunyuanOCR", HUNYUAN_TASKS, 4194304, 32768)
    vlm.says["document"] = "# River\n\nstone paper"
    try:
        formats = ("--formats", "md,json,docx,layout")
        words = [DOCUMENT, "--out", tmp_path / "out", "--vlm", vlm.url, *formats]
        done = call("parse_folder.py", *words, env={**SETTINGS, "VLM_MODEL": ""})
    finally:
        vlm.close()
    assert done.returncode == 0 and "Pages: 3 parsed" in done.stdout, done.stderr
    assert [task for task, _ in vlm.tasks] == ["document"] * 3 and none_is_left(done.stderr)
    folder = tmp_path / "out/handbook.pdf"
    assert (folder / "handbook.md").read_text().count("stone paper") == 3
    assert all((folder / f"handbook.{kind}").stat().st_size for kind in ("json", "docx", "layout.pdf"))


def test_ctrl_c_stops_the_parsers_as_well(tmp_path, vlms):
    command = [
        sys.executable,
        ROOT / "scripts/parse_folder.py",
        DOCUMENT,
        "--out",
        tmp_path / "out",
        "--vlm",
        vlms[0].url,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **SETTINGS}
    )
    assert process.stderr is not None, "it is a pipe"
    said = process.stderr.readline() + process.stderr.readline()
    named = re.search(r"\(log: (\S+)\)", said)
    assert named, said
    wait_for(lambda: (ROOT / named[1]).stat().st_size > 0)  # it is loading its models now
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=90)
    assert process.returncode == 130 and "interrupted" in rest and none_is_left(said + rest)


def test_a_vlm_server_that_is_not_there(tmp_path):
    done = call(
        "parse_folder.py",
        DOCUMENT,
        "--out",
        tmp_path / "out",
        "--vlm",
        "http://127.0.0.1:9/v1",
        "--patience",
        1,
        env=SETTINGS,
    )
    assert done.returncode == 4 and "is not ready after 1 s (--patience)" in done.stderr and none_is_left(done.stderr)
    done = call("parse_folder.py", DOCUMENT, "--out", tmp_path / "out", "--vlm", "127.0.0.1:9")
    assert done.returncode == 2 and "expected a VLM server's API root" in done.stderr
