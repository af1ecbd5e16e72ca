# SPDX-License-Identifier: Apache-2.0
"""The parser's port and keys."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bundle import ports
from bundle.preflight.machine import Finding
from tests.bundle.preflight.node import Node, by_check


@pytest.mark.parametrize("number", [errno.EADDRINUSE, errno.EACCES])
def test_a_port_that_our_own_parser_holds(tmp_path: Path, number: int):
    node = Node(tmp_path, "a3")
    node.port_error = number
    node.answers["docker", "compose"] = '{"State":"running"}\n'
    assert by_check(node)["port"] == Finding("PASS", "port", "8080 on 127.0.0.1 is our parser's")


@pytest.mark.parametrize(
    ("number", "level", "found"),
    [
        (errno.EADDRNOTAVAIL, "FAIL", "nobody can listen on 10.0.0.9 here (Cannot assign requested address)"),
        (errno.EAFNOSUPPORT, "FAIL", "nobody can listen on 10.0.0.9 here (Address family not supported by protocol)"),
        (errno.EACCES, "WARN", "this user may not listen on 80, so whether it is free on 10.0.0.9 is not known"),
    ],
)
def test_a_port_that_is_not_taken_and_cannot_be_listened_on(tmp_path: Path, number: int, level: str, found: str):
    node = Node(tmp_path, "a3", PARSER_BIND="10.0.0.9", PARSER_PORT="80", PARSER_AUTH="off")
    node.port_error = number
    assert (by_check(node)["port"].level, by_check(node)["port"].found) == (level, found)


def test_an_ipv6_address_without_the_brackets_that_compose_wants(tmp_path: Path):
    found = by_check(Node(tmp_path, "a3", PARSER_BIND="fd00::7", PARSER_AUTH="off"))["port"]
    assert (found.level, found.remedy) == ("FAIL", "PARSER_BIND=[fd00::7] in .env")
    found = by_check(Node(tmp_path / "other", "a3", PARSER_BIND="[fd00::7]", PARSER_AUTH="off"))["port"]
    assert (found.level, found.found) == ("PASS", "8080 on [fd00::7] is free")


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


@pytest.mark.parametrize(
    ("name", "value", "others"),
    [
        ("PARSER_BIND", "0.0.0.0", "everyone who can reach 0.0.0.0"),
        ("PUBLIC_URL", "https://ocr.example.org", "everyone who can reach ocr.example.org"),
        ("PARSER_ALLOWED_ORIGINS", "https://a.example, *", "every web page, because PARSER_ALLOWED_ORIGINS has *"),
    ],
)
def test_a_parser_that_others_reach_without_a_key(tmp_path: Path, name: str, value: str, others: str):
    found = by_check(Node(tmp_path, "a3", **{name: value}))["keys"]
    assert (found.level, found.found) == ("FAIL", f"the parser would be open to {others}, and there are no keys")


@pytest.mark.parametrize(
    ("version", "level"), [("20.10.24+dfsg1\n", "WARN"), ("27.5.1\n", "WARN"), ("28.0.0\n", "PASS"), ("", "PASS")]
)
def test_an_engine_that_leaks_ports_of_loopback(tmp_path: Path, version: str, level: str):
    node = Node(tmp_path, "a3")
    node.answers["docker", "version"] = version
    found = by_check(node)["keys"]
    assert found.level == level and ("same switch" in found.found) == (level == "WARN")
    if level == "WARN":
        node.answers["docker", "volume"] = "[{}]\n"
        node.answers["docker", "run"] = "billing  0123456789abcdef  valid\n"
        assert by_check(node)["keys"].level == "PASS", "a key in the volume"


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


def test_why_a_port_cannot_be_listened_on(monkeypatch: pytest.MonkeyPatch):
    """203.0.113.9 is nobody's; without IPv6 there is not even a socket."""
    error = ports.trouble("203.0.113.9", 18080)
    assert error is not None and error.errno == errno.EADDRNOTAVAIL
    bare, bracketed = (ports.trouble(host, 18080) for host in ("2001:db8::9", "[2001:db8::9]"))
    assert bare is not None and bracketed is not None and bracketed.errno == bare.errno

    def refused(family: int, _: int) -> None:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(ports.socket, "socket", refused)
    error = ports.trouble("::1", 18080)
    assert error is not None and error.errno == errno.EAFNOSUPPORT
