# SPDX-License-Identifier: Apache-2.0
"""The parser's port and keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundle.preflight.machine import Finding
from tests.bundle.preflight.node import Node, by_check


def test_a_port_that_our_own_parser_holds(tmp_path: Path):
    node = Node(tmp_path, "a3")
    node.free = False
    node.answers["docker", "compose"] = '{"State":"running"}\n'
    assert by_check(node)["port"] == Finding("PASS", "port", "8080 on 127.0.0.1 is our parser's")


@pytest.mark.parametrize(
    "values",
    [
        {"PARSER_API_KEYS": "sha256:" + "0" * 64},
        {"PARSER_API_KEYS": f"sha256:{'0' * 64} name=billing pages=1000/day,sha256:{'1' * 64}"},
        {"PARSER_AUTH": "off"},
        {"PARSER_API_KEYS_FILE": "/run/keys"},
        {"PARSER_BIND": "::1"},
        {"PARSER_BIND": "[::1]"},
    ],
)
def test_a_parser_that_is_open_to_none_without_a_key(tmp_path: Path, values: dict[str, str]):
    assert by_check(Node(tmp_path, "a3", **{"PARSER_BIND": "0.0.0.0", **values}))["keys"].level == "PASS"


def test_keys_in_the_parsers_volume(tmp_path: Path):
    node = Node(tmp_path, "a3", PARSER_BIND="0.0.0.0")
    node.answers["docker", "volume"] = "[{}]\n"
    assert by_check(node)["keys"].level == "FAIL"
    node.answers["docker", "run"] = "billing  0123456789abcdef  valid\nguest  123456789abcdef0  valid\n"
    node.calls.clear()
    assert by_check(node)["keys"] == Finding("PASS", "keys", "2 in the volume paddleocr-vl_parser-state")
    (run,) = (call for call in node.calls if call[:2] == ("docker", "run"))
    assert run[run.index("--pull") + 1] == "never", "a parser that is not there is nobody's else"
    node.values = {**node.values, "COMPOSE_PROJECT_NAME": "mine"}
    assert by_check(node)["keys"].found == "2 in the volume mine_parser-state"
