# SPDX-License-Identifier: Apache-2.0
"""A bundle for scripts/acceptance.sh: the simulated parser, and what a simulated engine is told to print."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from bundle.acceptance import pages
from bundle.acceptance.node import Node, Options
from tests.support.paths import ROOT
from tests.support.simulated_docker import SimulatedDocker
from tests.support.simulated_parser import SimulatedParser

KEY, TOKEN = "kY7-planted-key-in-plain", "planted-token-0123456789"
DATA = ROOT / "tests/data"
RECORDED = json.loads((ROOT / "models/demo/PaddleOCR-VL/selftest.json").read_text())["page"]


class DrawnPages(SimulatedParser):
    """Gives back what the documents in tests/data hold, or what `text` makes of it."""

    text: Callable[[str], str] = staticmethod(lambda text: text)

    def result(self, number: int, body: dict) -> dict:
        data = base64.b64decode(body["file"])
        name = next(path for path in DATA.iterdir() if path.is_file() and path.read_bytes() == data)
        drawn = json.loads(name.with_suffix(".json").read_text())
        kept = [
            " ".join(block["text"] for block in page["blocks"] if block["label"] not in pages.LEFT_OUT)
            for page in drawn.get("pages", [drawn])
        ]
        if name.name == RECORDED["file"]:
            kept = [RECORDED["text"]]  # the self-test compares this page letter by letter
        return {"layoutParsingResults": [{"markdown": {"text": self.text(text)}} for text in kept], "docparser": {}}


def lines(dies: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(die) + "\n" for die in dies)


def checked(numbers: list[int | None], **changed: object) -> str:
    """What vlm_server.die_check prints, see `asked`."""
    return lines(asked(numbers, **changed))


def asked(numbers: list[int | None], **changed: object) -> list[dict[str, Any]]:
    """What vlm_server.die_check finds; `changed` replaces fields of the last die's ATB operator."""
    kinds = (
        ("linear", "torch", 0.002, 0.008),
        ("write to the cache", "atb", 0.0, 0.0),
        ("decode", "atb", 0.003, 0.016),
    )
    found: list[dict[str, Any]] = []
    for die in numbers:
        findings: list[dict[str, Any]] = [
            {"name": name, "library": library, "error": error, "tolerance": most, "seconds": 0.1, "words": ""}
            for name, library, error, most in kinds
        ]
        kind = "cpu" if die is None else "npu"
        found.append({"kind": kind, "die": die, "seconds": 1.0, "findings": findings, "problem": ""})
    found[-1]["findings"][-1].update(changed)
    return found


def node_at(parser: SimulatedParser, **values: str) -> Node:
    return Node({"HARDWARE": "cpu", **values}, Options(0.001, 0), parser.url, replicas=2)


def states(docker: SimulatedDocker, **found: str) -> None:
    docker.say("ps", "".join(json.dumps({"Service": name, "State": state}) + "\n" for name, state in found.items()))
