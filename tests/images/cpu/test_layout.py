# SPDX-License-Identifier: Apache-2.0
"""The layout server beside the replica, which the bundle of these tests has: pages go to it, equal to the parser's own.

It is killed under load, and held until everybody has said that it is away.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.images.client import check_letter
from tests.images.project import READY_SECONDS, Project
from tests.support.docs import blocks
from tests.support.paths import LETTER, ROOT

SERVER = "-m layout_server"
AWAY, PAGES = "docparser_layout_server_away", "docparser_layout_pages_total"
CLIENTS, REQUESTS = 2, 4


def metrics(bundle: Project) -> dict[str, float]:
    """The parser's samples by name, those with a place by `name place`."""
    with urllib.request.urlopen(f"{bundle.client.url}/metrics", timeout=60) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        f"{sample.name} {sample.labels.get('place', '')}".strip(): sample.value
        for family in families
        for sample in family.samples
    }


def readiness(bundle: Project) -> dict[str, Any]:
    """What the parser says while it is ready; fails where it is not."""
    return bundle.client.call("/health/ready", timeout=60)["result"]["layout"]["server"]


def status_line(bundle: Project) -> dict[str, Any]:
    """The layout server's line of scripts/status.sh."""
    done = bundle.run("scripts/status.sh", "--json")
    assert done.stdout, done.stderr
    return next(line for line in json.loads(done.stdout) if line["name"] == "layout")


def found(result: dict[str, Any]) -> list[tuple[str, list[float]]]:
    """Label and box of all that was found on the page of an answer in which nothing is missing."""
    check_letter(result)
    (page,) = result["layoutParsingResults"]
    return [(box["label"], box["coordinate"]) for box in page["prunedResult"]["layout_det_res"]["boxes"]]


def check_equal(one: list[tuple[str, list[float]]], other: list[tuple[str, list[float]]]) -> None:
    assert [label for label, _ in one] == [label for label, _ in other]
    # Two engines: their roundings differ by a few thousandths of a pixel.
    for (_, box), (_, same) in zip(one, other, strict=True):
        assert max(abs(a - b) for a, b in zip(box, same, strict=True)) <= 0.05, (box, same)


def test_pages_go_to_the_layout_server(bundle: Project):
    bundle.wait_ready()
    before = metrics(bundle)[f"{PAGES} server"]
    assert found(bundle.client.parse(LETTER))
    bundle.wait_for(lambda: metrics(bundle)[f"{PAGES} server"] == before + 1, 60, "the page is counted")
    assert readiness(bundle) == {"url": "http://vlm:8001", "used": True}
    said = status_line(bundle)
    assert said["well"] and said["text"].startswith("up on cpu: 0 pages wait, "), said
    assert said["text"].endswith("the parser uses http://vlm:8001")


def test_a_layout_server_that_is_killed_under_load_costs_no_page(bundle: Project):
    """supervisord starts another one at once; it is stopped as soon as it is there, so that it stays away."""
    bundle.wait_ready()
    by_server, begun = found(bundle.client.parse(LETTER)), threading.Event()
    before, restarts = metrics(bundle), bundle.inspect("vlm")["RestartCount"]

    def request(number: int) -> list[tuple[str, list[float]]]:
        if number == CLIENTS:
            begun.set()
        return found(bundle.client.parse(LETTER))

    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = [clients.submit(request, number) for number in range(REQUESTS)]
        assert begun.wait(READY_SECONDS)
        killed = bundle.kill("vlm", SERVER)
        bundle.wait_for(lambda: set(bundle.find("vlm", SERVER)) - set(killed), 120, "another layout server")
        held = sorted(set(bundle.find("vlm", SERVER)) - set(killed))
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        try:
            boxes = [answer.result(timeout=READY_SECONDS) for answer in answers]
            # On a busy machine the new server may have answered the last of them: the stopped one is asked once.
            boxes.append(found(bundle.client.parse(LETTER)))
            bundle.wait_for(lambda: metrics(bundle)[AWAY] == 1, 60, "the metrics say that it is away")
            told = readiness(bundle)
            assert told["used"] is False and told["because"].startswith("http://vlm:8001: "), told
            said = status_line(bundle)
            assert said["well"] is False and said["text"].startswith("down or loading, for cpu: "), said
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)
    assert metrics(bundle)[f"{PAGES} cpu"] > before[f"{PAGES} cpu"]
    for one in boxes:
        check_equal(one, by_server)
    bundle.wait_for(lambda: metrics(bundle)[AWAY] == 0, READY_SECONDS, "it is back, without a page")
    served = metrics(bundle)[f"{PAGES} server"]
    check_equal(found(bundle.client.parse(LETTER)), by_server)
    bundle.wait_for(lambda: metrics(bundle)[f"{PAGES} server"] == served + 1, 60, "the page is counted")
    assert bundle.inspect("vlm")["RestartCount"] == restarts, "the container itself must not have ended"
    (command,) = blocks(ROOT / "docs/layout-server.md", "When it is away")
    done = bundle.run("bash", "-euc", command)
    assert "SIGKILL" in done.stdout and "layout model /models/" in done.stdout, done.stdout + done.stderr
