# SPDX-License-Identifier: Apache-2.0
"""Faults in the real chain: bad files, a busy port, Ctrl-C; and stopping."""

from __future__ import annotations

import json
import re
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.local import make_local
from tests.support.local_mode import LocalMode, one_error_line
from tests.support.paths import DATA
from tests.support.wait import wait_for


def test_broken_files_disturb_nothing(local: LocalMode, tmp_path: Path):
    """Which of them never come as far as the parser is in tests/bundle."""
    running = sorted(local.processes())
    path = tmp_path / "header.pdf"
    path.write_bytes(b"%PDF-1.7\n")
    result = local.call(str(path), "--out", str(tmp_path / "out"))
    assert result.returncode == 2 and path.name in one_error_line(result.stderr)
    assert result.stdout == "" and not (tmp_path / "out").exists()
    assert sorted(local.processes()) == running


def test_the_parser_refuses_what_is_no_document(local: LocalMode):
    body = json.dumps({"file": "bm90IGFuIGltYWdl", "fileType": 1}).encode()
    request = urllib.request.Request(f"{local.parser_url}/layout-parsing", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=300)
    assert 400 <= caught.value.code < 500
    answer = json.load(caught.value)
    assert answer["errorCode"] == caught.value.code and answer["errorMsg"] and answer["logId"]


def test_what_is_left_of_damaged_files_is_read_and_that_is_said(local: LocalMode, tmp_path: Path):
    """After the files above: pages are still parsed."""
    damaged = [tmp_path / "picture.png", tmp_path / "pages.pdf"]
    report = (DATA / "report.png").read_bytes()
    damaged[0].write_bytes(report[: len(report) // 2])
    damaged[1].write_bytes((DATA / "handbook.pdf").read_bytes()[:2000])
    result = local.call(*map(str, damaged), "--out", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    for path in damaged:
        assert (tmp_path / "out" / f"{path.stem}.md").is_file()
        assert re.search(rf"note: \S*{path.name}, page 1: .*damaged, or its end is missing", result.stderr)


def test_a_port_that_is_taken(tmp_path: Path):
    other = make_local(tmp_path)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", int(other.env["PARSER_PORT"])))
        holder.listen()
        result = other.call(str(DATA / "letter.png"))
    assert result.returncode == 2 and other.env["PARSER_PORT"] in one_error_line(result.stderr)
    assert other.processes() == []


def test_interrupt_while_the_services_start(tmp_path: Path):
    other = make_local(tmp_path)
    call = other.start(str(DATA / "letter.png"))
    try:
        wait_for(lambda: any("vllm serve" in line for line in other.processes()), 300)
        call.send_signal(signal.SIGINT)
        _, stderr = call.communicate(timeout=300)
        assert call.returncode == 130 and "Traceback" not in stderr
        assert other.processes() == [] and not (tmp_path / "output").exists()
    finally:
        other.call("--down")  # else what a failure leaves would run beside all later tests


def test_weights_that_are_named_but_absent(tmp_path: Path):
    other = make_local(tmp_path)
    other.env["VLM_MODEL"] = "PaddleOCR-VL"
    result = other.call(str(DATA / "letter.png"))
    assert result.returncode == 2 and "VLM_MODEL is 'PaddleOCR-VL'" in one_error_line(result.stderr)
    assert other.processes() == []


def test_zz_down_leaves_nothing(local: LocalMode):
    """Last in the last file that uses `local`: stops it."""
    assert local.processes()
    assert local.call("--down").returncode == 0
    assert local.processes() == []
    for name in ("VLM_PORT", "PARSER_PORT"):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", int(local.env[name])))
    assert not Path(local.env["RUN_DIR"], "supervisord.pid").exists()
