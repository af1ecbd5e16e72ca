# SPDX-License-Identifier: Apache-2.0
"""The path that production takes, through a real vLLM: one block is one request, a table is asked for as a table. The
demo weights serve, and PARSER_SMALL_PRINT=off has them asked as published weights are. They read a few lines at a time
well, and no tables: what is held is what was asked, and the text of blocks of a few lines.

The group e2e asks local mode's server, which is of the first stack; the group plugin-0.23 starts one of the second."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from free_ports import free_port
from tests.support.local_mode import LocalMode
from tests.support.paths import DATA, DEMO_MODELS, python_of
from tests.support.processes import Process, child_environment
from tests.support.recording_proxy import OPENER, RecordingProxy
from tests.support.simulated_vlm import image_url, prompt_of
from tests.support.texts import error_rate, squeeze
from tests.support.wait import wait_for

START_S = 1500  # two busy cores are slow
SECOND = python_of("vlm-0.23")  # the environment whose tests ask the second stack
LINES = 3  # of blocks that the demo weights read whole
ACCEPTED_ERROR = 0.02


def answers(url: str, process: Process) -> bool:
    assert process.process.poll() is None, process.log.read_text(errors="replace")[-6000:]
    try:
        with OPENER.open(url, timeout=10) as response:
            return response.status == 200
    except OSError:
        return False


@contextlib.contextmanager
def second_stack(folder: Path) -> Iterator[str]:
    """The address of a VLM server of the second stack."""
    port = free_port()
    (folder / "models").mkdir()
    (folder / "models/demo").symlink_to(DEMO_MODELS)
    own = {"VLM_HOST": "127.0.0.1", "VLM_PORT": str(port), "MODELS_DIR": str(folder / "models"), "HARDWARE": "cpu"}
    env = child_environment("VLM_", "LAYOUT_", "MODELS_DIR", "PYTHONPATH", **own)
    server = Process([str(SECOND), "-m", "vlm_server"], folder / "vlm.log", env)
    try:
        wait_for(lambda: answers(f"http://127.0.0.1:{port}/health", server), START_S, "the VLM server")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.end()


@pytest.fixture(scope="module")
def vlm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingProxy]:
    """A VLM server, and what it is asked."""
    with contextlib.ExitStack() as stack:
        if Path(sys.prefix) == SECOND.parents[1]:
            url = stack.enter_context(second_stack(tmp_path_factory.mktemp("second")))
        else:
            local: LocalMode = request.getfixturevalue("local")
            url = local.vlm_url
        proxy = RecordingProxy(url)
        stack.callback(proxy.close)
        yield proxy


@pytest.fixture(scope="module")
def parser(vlm: RecordingProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a parser that asks for whole blocks."""
    folder, port = tmp_path_factory.mktemp("parser"), free_port()
    own = {
        "PARSER_PORT": str(port),
        "PARSER_CACHE_DIR": str(folder / "cache"),
        "PARSER_SPOOL_DIR": str(folder / "spool"),
        "PARSER_DATA_DIR": str(folder / "data"),
        "PARSER_WORKERS": "1",
        "PARSER_SMALL_PRINT": "off",
        "VLM_URL": vlm.url,
        "LAYOUT_MODEL_DIR": str(DEMO_MODELS / "PP-DocLayoutV2"),
        "LAYOUT_ENGINE": "paddle",  # a graph for OpenVINO takes half a minute to make
    }
    env = child_environment("PARSER_", "VLM_", "LAYOUT_", "PYTHONPATH", **own)
    process = Process([str(python_of("parser")), "-m", "docparser"], folder / "parser.log", env)
    try:
        wait_for(lambda: answers(f"http://127.0.0.1:{port}/health/ready", process), START_S, "the parser")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.end()


@functools.cache
def parsed(parser: str, vlm: RecordingProxy, name: str) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict]]:
    """The blocks of a page, the whole answer, and what the VLM was asked for it."""
    vlm.requests.clear()
    file = base64.b64encode((DATA / name).read_bytes()).decode()
    body = json.dumps({"file": file, "visualize": False}).encode()
    request = urllib.request.Request(f"{parser}/layout-parsing", body, {"Content-Type": "application/json"})
    with OPENER.open(request, timeout=600) as response:
        answer = json.load(response)
    (entry,) = answer["result"]["layoutParsingResults"]
    return entry["prunedResult"]["parsing_res_list"], answer, list(vlm.requests)


@pytest.mark.parametrize("name", ["letter", "invoice"])  # blocks of text; a table
def test_a_block_is_one_request(parser: str, vlm: RecordingProxy, name: str):
    blocks, answer, requests = parsed(parser, vlm, f"{name}.png")
    read = [block for block in blocks if block["block_label"] not in ("image", "header_image", "footer_image")]
    prompts = {"table": "Table Recognition:", "display_formula": "Formula Recognition:"}
    asked = sorted(prompt_of(request) for request in requests)
    # Parts of a paragraph that goes on in the next column are asked for as one, and keep their places in the result.
    parts = {block["group_id"] for block in read if block["group_id"] is not None}
    alone = [block for block in read if block["group_id"] is None]
    assert len(asked) == len(parts) + len(alone), "as many requests as blocks"
    tables = [block for block in blocks if block["block_label"] == "table"]
    assert asked.count(prompts["table"]) == len(tables)
    assert set(asked) <= {"OCR:", *prompts.values()}
    for request in requests:
        assert request["mm_processor_kwargs"] == {"min_pixels": 112_896, "max_pixels": 1_003_520}
        assert request["temperature"] == 0 and image_url(request).startswith("data:image/jpeg;base64,")
    assert answer["result"]["docparser"]["pages"] == [], "nothing is wrong with any page or block"


def test_blocks_of_a_few_lines_are_read(parser: str, vlm: RecordingProxy):
    """Whoever drew the pages knows how many lines a block has: its text is as long as its box has room for."""
    blocks, _, _ = parsed(parser, vlm, "letter.png")
    page = json.loads((DATA / "letter.json").read_text())
    expected = [block for block in page["blocks"] if block["label"] in ("text", "doc_title", "paragraph_title")]
    short = [squeeze(block["text"]) for block in expected if len(block["text"]) < 70 * LINES]
    found = [squeeze(block["block_content"]) for block in blocks]
    # Parts of a paragraph in two columns are one text.
    rates = [
        0.0 if any(true in text for text in found) else min(error_rate(text, true) for text in found) for true in short
    ]
    print(f"{len(short)} blocks, errors {[f'{rate:.1%}' for rate in rates]}")
    assert len(short) >= 8 and sum(rate <= ACCEPTED_ERROR for rate in rates) >= 0.9 * len(rates)
