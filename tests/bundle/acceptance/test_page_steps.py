# SPDX-License-Identifier: Apache-2.0
"""The steps `ten pages` and `load` of scripts/acceptance.sh. The engine and the parser are simulated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bundle.acceptance import load, pages
from bundle.acceptance.node import Node, Options
from bundle.acceptance.steps import FAIL, PASS, SKIP, Outcome
from bundle.offline import contents
from percentiles import percentile
from tests.bundle.acceptance.simulated_bundle import DATA, DrawnPages, node_at
from tests.support.simulated_docker import SimulatedDocker


def demo(node: Node) -> Node:
    node.weights = {kind: {"model": "x", "demo": True} for kind in ("vlm", "layout")}
    return node


@pytest.mark.server
def test_ten_pages(docker: SimulatedDocker, parser: DrawnPages):
    node = demo(node_at(parser))
    found = pages.ten_pages(node)
    assert found.verdict == PASS and "10 pages" in found.found
    assert len(json.loads(node.outputs["pages.json"])) == 10
    parser.text = lambda text: text.replace("e", "c")
    found = pages.ten_pages(node)
    assert found.verdict == FAIL and "report.png, page 1" in found.found and "handbook.pdf, page 3" in found.found
    node.weights = {}
    assert pages.ten_pages(node).verdict == PASS
    parser.text = lambda text: "the the the 0 0 0"
    found = pages.ten_pages(node)
    assert found.verdict == FAIL, "dies that all read the same nonsense agree with each other"
    parser.text = lambda text: " ".join(text.split()[: len(text.split()) * 3 // 4])
    found = pages.ten_pages(node)
    assert (
        found.verdict == PASS
        and "wanted: 50 %, since how well these weights should read is not recorded" in found.found
    )
    parser.text = lambda text: "  "
    assert "no text" in pages.ten_pages(node).found


def test_pages_that_are_missing_or_partial():
    truth = pages.true_words("handbook.pdf")
    one = {"markdown": {"text": " ".join(truth[0])}}
    result = {"layoutParsingResults": [one], "docparser": {"partial": True}}
    _, wrong = pages.check("handbook.pdf", result, demo=False)
    assert wrong == [f"handbook.pdf: 1 of {len(truth)} pages came back", "handbook.pdf: parts of it failed"]


def test_words_of_tables_count_wherever_they_stand():
    table = "<table><tr><td>Amount</td><td>18.50</td></tr></table>"
    assert pages.share_found(table, pages.words("18.50 Amount")) == 1
    assert pages.share_found("a b", pages.words("a a b c")) == 0.5


@pytest.mark.server
def test_load(docker: SimulatedDocker, parser: DrawnPages):
    node = node_at(parser)
    found = load.load(node)
    assert found.verdict == PASS and "from 4 clients" in found.found and found.found.endswith("0 failed"), found
    calls = json.loads(node.outputs["calls.json"])
    assert len(calls) >= 4 and {"began", "seconds", "error"} == set(calls[0])
    parser.script[1] = [500]
    found = load.load(node)
    assert found.verdict == FAIL and "1 failed: " in found.found and "told to answer 500" in found.found
    parser.always = 503
    found = load.load(Node({}, Options(5, 1), parser.url, replicas=1))
    assert found.verdict == FAIL and found.found.startswith("no page of "), "it must not go on for five minutes"
    assert load.load(Node({}, Options(0, 1), parser.url)) == Outcome(SKIP, "--skip-load")


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (25, 1), (50, 2), (51, 3), (95, 4), (100, 4)])
def test_percentiles_are_values_that_were_seen(percent: int, expected: float):
    assert percentile([4, 2, 1, 3], percent) == expected and percentile([7.0], percent) == 7


def test_the_pages_travel_with_the_offline_archive():
    carried = set(contents.tree_files())
    needed = [DATA / name for document in pages.DOCUMENTS for name in (document, f"{Path(document).stem}.json")]
    assert set(needed) <= carried and len(needed) == 12
