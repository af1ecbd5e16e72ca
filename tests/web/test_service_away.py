# SPDX-License-Identifier: Apache-2.0
"""A service that is full or away: files wait, documents stay, and a proxy's answers are not taken for the service's."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web.copies import copies
from tests.web.pages import HURRY, WAIT_MS

SUBMIT = "**/api/v2/ocr/jobs"
SERVICE = re.compile("/api/v2/|/capacity$|/capabilities$")
# Sends files by `sending.js` with the answers `[status, Retry-After]`, 200 after these. Pauses are told, and over at
# once. `end`: the file that is cancelled when its connection has broken; what has the answer null is never answered.
SENDS = """async ({ count, answers, end }) => {
    const { Sending } = await import("/ui/sending.js");
    const [later, pauses, asked, sent, refused] = [window.setTimeout, [], [], [], []];
    window.setTimeout = (act, ms) => {
        if (ms >= 5000) pauses.push(ms / 1000);
        return later(act);
    };
    const file = (at) => new File(["x"], String(at));
    const upload = () => ({ state: "waiting", settings: {} });
    const documents = Array.from({ length: count }, (_, at) => ({ file: file(at), upload: upload() }));
    return new Promise((done) => {
        const over = () => sent.length + refused.length === count - Boolean(end) - answers.filter((one) => !one).length
            && done({ pauses, asked, sent, refused, held: sending.held });
        const sending = new Sending({
            change() {},
            refused(document, { status }) { over(refused.push([Number(document.file.name), status])); },
            sent(document) { over(sent.push(Number(document.file.name))); },
        });
        let left = [...answers];
        window.XMLHttpRequest = class {
            upload = {};
            open() {}
            setRequestHeader() {}
            abort() {}
            getResponseHeader() { return this.after; }
            send(body) {
                const name = body.get("file").name;
                asked.push(Number(name));
                const answer = left.length ? left.shift() : [200];
                if (!answer) return;
                [this.status, this.after = null] = answer;
                this.response = JSON.stringify({ code: this.status, data: { jobId: name } });
                later(() => {
                    if (this.status) return this.onload();
                    this.onerror();
                    if (name === end) sending.end([documents[Number(name)]]);
                });
            }
        };
        sending.add(documents);
    });
}"""


@pytest.fixture
def sends(site, service):
    """``sends(count, answers)`` on an empty page of the service."""
    page = site.open()
    page.route("**/blank", lambda route: route.fulfill(body="<title>blank</title>", content_type="text/html"))
    page.goto(f"{service.url}/blank")

    def send(count: int, answers: list[Any], end: str = "") -> dict[str, Any]:
        return page.evaluate(SENDS, {"count": count, "answers": answers, "end": end})

    return send


def until(page: Page, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_MS / 1000
    while not happened():
        assert time.monotonic() < deadline
        page.wait_for_timeout(20)


def test_pauses_are_those_that_the_service_asks_for_or_grow_to_a_bound(sends):
    away = [[0]] * 3  # the connection breaks at each of the attempts
    told = sends(1, [[429, "30"], [503], *away, [502], [507, "60"], [500], *[[502]] * 5, [429, "9000000"]])
    assert told["pauses"] == [30, 5, 10, 20, 60, 40, 80, 160, 300, 300, 300, 3600]
    assert told["sent"] == [0] and told["held"] is None


def test_one_file_tries_and_what_fails_waits_behind_the_others(sends):
    told = sends(4, [[500], [200]])
    assert told["asked"] == [0, 1, 2, 3, 0] and told["sent"] == [1, 2, 3, 0] and told["pauses"] == [5]


def test_what_the_service_refuses_holds_nothing_up(sends):
    told = sends(3, [[413], [422]])
    assert told["refused"] == [[0, 413], [1, 422]] and told["sent"] == [2] and told["pauses"] == []


def test_who_cancels_while_a_broken_connection_is_tried_again_sends_nothing(sends):
    told = sends(3, [[0], None], end="0")
    assert told["asked"] == [0, 1, 2] and told["sent"] == [2]


def test_a_folder_waits_while_the_service_is_full_and_goes_on_by_itself(site, file, tmp_path):
    page = site.open()
    asked: list[str] = []

    def full(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=429, json={"code": 429, "msg": "The queue is full."}, headers={"Retry-After": "1"})

    page.route(SUBMIT, full)
    page.set_input_files("#files", copies(file, tmp_path / "folder", 20))
    expect(page.locator("#held")).to_contain_text("The service takes no more files for now. 20 files wait")
    expect(page.locator("#news")).to_contain_text("20 files wait")
    until(page, lambda: len(asked) > 3)  # two at once, then one a second
    expect(page.locator("#documents li")).to_have_count(20)
    page.locator("#language").click()
    expect(page.locator("#held")).to_contain_text("20 个文件在等待")
    page.unroute(SUBMIT)
    expect(page.locator('li[data-stage="done"]')).to_have_count(20)
    expect(page.locator("#held")).to_be_hidden()
    expect(page.locator("#problem")).to_be_hidden()
    site.forgive("429")


def test_a_file_that_is_gone_from_the_disk_holds_nothing_up(site, file, tmp_path):
    page = site.open()
    held: list[Route] = []
    page.route(SUBMIT, lambda route: held.append(route))
    names = copies(file, tmp_path / "some", 4)
    page.set_input_files("#files", names)
    until(page, lambda: len(held) == 2)
    Path(names[2]).unlink()
    page.unroute(SUBMIT)  # lets go on what is held
    expect(page.locator("#problem .about")).to_have_text("scan_03.pdf")
    expect(page.locator("#problem .says")).to_have_text(re.compile("^It cannot be read"))
    expect(page.locator('li[data-stage="done"]')).to_have_count(3)
    site.forgive("ERR_FILE_NOT_FOUND")


@pytest.mark.parametrize("status", [404, 403, 200])
def test_what_a_proxy_says_of_a_service_that_is_away_is_not_believed(site, file, status):
    page = site.open()
    page.set_input_files("#files", [file(1, "first.pdf"), file(1, "second.pdf")])
    expect(page.locator('li[data-stage="done"]')).to_have_count(2)
    asked: list[str] = []

    def away(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=status, body="404 page not found\n", content_type="text/plain")

    page.route(SERVICE, away)
    page.add_init_script(HURRY)
    site.reload(page)
    # Of the document on the screen, and of the others.
    until(page, lambda: all(len([url for url in asked if one in url]) > 1 for one in ("/events", "jobId=")))
    expect(page.locator("#documents li")).to_have_count(2)
    expect(page.locator("#problem")).to_be_hidden()
    page.unroute(SERVICE)
    expect(page.locator('li[data-stage="done"]')).to_have_count(2)
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    expect(page.locator("#until")).to_contain_text("deleted by")  # what is asked once is asked again
    site.forgive(str(status))


def test_a_page_that_could_not_be_had_is_there_when_the_service_is(site, file):
    page = site.open()
    page.add_init_script(HURRY)
    site.reload(page)
    away: list[Route] = []

    def fail(route: Route) -> None:
        away.append(route)
        route.fulfill(status=502, body="<html>Bad Gateway</html>")

    page.route("**/pages/1", fail)
    page.set_input_files("#files", file())
    expect(page.locator(".row[aria-current] .prose .says")).to_have_text("The service answered 502.")
    until(page, lambda: len(away) > 1)
    page.unroute("**/pages/1")
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    site.forgive("502")


def under(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("#capacity")).to_have_text("Ready")


def test_installations_under_paths_of_one_host_know_nothing_of_each_other(site, service, file):
    page = site.open()
    page.context.route(
        re.compile(r":\d+/[ab]/"),
        lambda route: route.continue_(url=re.sub(r"(:\d+)/[ab]/", r"\1/", route.request.url)),
    )
    under(page, f"{service.url}/a/")
    page.set_input_files("#files", file())
    expect(page.locator("#state")).to_have_text("done, 1 page")
    page.evaluate("async () => (await import('/a/ui/api.js')).key.set('key-of-a')")
    page.locator("#language").click()
    page.locator("#language").click()
    page.locator("#theme").click()
    assert {*page.evaluate("[...Object.keys(localStorage), ...Object.keys(sessionStorage)]")} == {
        f"docparser.{name}/a/" for name in ("jobs", "language", "theme", "key")
    }
    under(page, f"{service.url}/b/")
    expect(page.locator("#documents li")).to_have_count(0)
    assert page.evaluate("async () => (await import('/b/ui/api.js')).key.get()") == ""
    page.evaluate("sessionStorage.clear()")  # this service has no keys, and so no list of a key
    page.set_input_files("#files", file(2))
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    under(page, f"{service.url}/a/")
    expect(page.locator("#documents li")).to_have_count(1)
    expect(page.locator("#state")).to_have_text("done, 1 page")
