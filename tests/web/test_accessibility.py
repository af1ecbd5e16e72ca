# SPDX-License-Identifier: Apache-2.0
"""The page for everybody: no finding of axe in any state, progress that is heard, and no motion where none is wanted.
The way of the keyboard is in test_page.py."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.paths import ROOT
from tests.web.accessibility import violations
from tests.web.pages import BLOCKS, page_of

SLANTED = [[10, 30], [88, 24], [90, 44], [12, 50]]
# Headings that leave out levels, a table and a formula that are wider than a telephone.
WIDE = "\n\n".join(
    (
        "### Wells",
        "###### Depth",
        "# Again",
        "<table><tr>" + "".join(f"<td>column{n}</td>" for n in range(30)) + "</tr></table>",
        "$$" + "+".join(f"x_{{{n}}}" for n in range(90)) + "$$",
        '<img src="imgs/a.jpg">',
    )
)
MOTION = "() => document.getAnimations().map(one => one.animationName ?? one.transitionProperty)"
LISTEN = """() => {
    window.heard = [];
    const live = document.getElementById("news");
    new MutationObserver(() => window.heard.push(live.textContent)).observe(live, { childList: true });
}"""
LOOKS: dict[str, dict[str, Any]] = {
    "wide": {"language": "en-GB", "width": 1440, "height": 900},
    "narrow": {"language": "zh-CN", "width": 360, "height": 780},
}
BOTH = [pytest.param("wide", marks=pytest.mark.long), "narrow"]
DOCUMENTS, BOOK = 200, 2000
ICON = (ROOT / "parser/docparser/web/static/icon.svg").read_text()
SUBMIT = "**/api/v2/ocr/jobs"
LISTED = re.compile(r"/api/v2/ocr/jobs\?")
EVENTS = "**/api/v2/ocr/jobs/*/events"


def check(page: Page, state: str, dark: bool = False) -> None:
    """``dark``: in dark colours, too."""
    assert violations(page) == [], state
    if dark:
        page.emulate_media(color_scheme="dark")
        assert violations(page, "color-contrast") == [], f"{state}, dark"
        page.emulate_media(color_scheme="light")


@pytest.mark.parametrize("look", BOTH)
def test_axe_finds_nothing(site, service, vlm, says, file, tmp_path, look):
    says(page_of(WIDE, outlines={1: SLANTED}, doubtful={0: 0.4199, 1: 0.5}))
    refuse = service.log.parent / "refuse"
    page = site.open(**LOOKS[look], motion="reduce")  # half-way through a transition no colour is what it will be
    dark = look == "narrow"  # colours do not depend on the width, but where the narrow page hides what has them
    expect(page.locator("#capacity")).not_to_be_empty()
    check(page, "start", dark=True)
    page.locator(".options summary").click()
    check(page, "options")
    held: list[Route] = []
    page.route(SUBMIT, lambda route: held.append(route))
    page.set_input_files("#files", [file(1, f"{name}.pdf") for name in ("first", "second", "third")])
    expect(page.locator('li[data-stage="sending"]')).to_have_count(2)
    check(page, "sending")
    page.locator("#all").check()
    page.locator("#many-cancel").click()
    expect(page.locator("#documents li")).to_have_count(0)
    for route in held:
        route.fulfill(status=400)  # else it is sent again, since the service may have made a job of it
    page.unroute(SUBMIT)
    refuse.write_text("2")
    with vlm.holding():
        page.set_input_files("#files", file(40, "long.pdf"))
        expect(page.locator('#strip [data-state="running"]')).to_be_visible()
        expect(page.locator("#jump")).to_be_visible()
        check(page, "busy with many pages", dark=True)
        page.locator("#cancel").click()
        page.locator("#remove").click()
        page.locator("#removeyes").click()
        expect(page.locator("#viewer")).to_be_hidden()
    page.set_input_files("#files", file(3))
    expect(page.locator(".row[aria-current] .prose table")).to_be_attached()
    # Another notice stands beside it once the job has ended.
    expect(page.locator('#notice [data-text="doubtful"]')).to_be_visible()
    expect(page.locator(".row[aria-current] .box polygon")).to_have_count(1)
    expect(page.locator(".row[aria-current] .box")).to_have_count(len(BLOCKS))
    expect(page.locator(".row[aria-current] .prose .doubt")).to_have_count(1)
    check(page, "result with polygons, and its failure", dark)
    if page.locator(".switch").is_visible():
        page.locator('.switch [data-pane="reading"]').click()
    expect(page.locator(".row[aria-current] .prose .tablebox")).to_have_attribute("tabindex", "0")
    check(page, "text", dark)
    page.locator("[data-form=source][aria-pressed]").click()
    check(page, "Markdown")
    page.locator("#downloads summary").click()
    check(page, "downloads", dark)
    page.keyboard.press("Escape")
    page.locator('#strip [data-page="2"]').click()
    expect(page.locator(".row[aria-current] .prose .says")).to_be_attached()
    check(page, "failed page", dark)
    notes = tmp_path / "notes.txt"
    notes.write_text("no document")
    page.set_input_files("#files", [str(notes), file(1, "second.pdf")])
    expect(page.locator("#documents li")).to_have_count(2)
    expect(page.locator("#problem .says")).to_be_visible()
    check(page, "error, and the list of jobs", dark)
    page.locator("#all").check()
    check(page, "selected")
    page.locator("#many-download").click()
    check(page, "ZIP")
    page.keyboard.press("Escape")
    page.locator("#many-remove").click()
    check(page, "removal")
    page.keyboard.press("Escape")
    page.locator("#keydialog").evaluate("dialog => dialog.showModal()")
    check(page, "key", dark)
    site.forgive("400")


def told(number: int, pages: int) -> dict[str, Any]:
    """A job of a folder as the service tells it: some wait, some are at work, are done, or have failed."""
    state = ("pending", "running", "done", "failed")[number % 4]
    counts = {"queued": 0, "running": 0, "done": pages, "failed": 0}
    return {
        "jobId": f"{number:032x}",
        "state": state,
        "createTime": "2026-03-09T17:05:00.000Z",
        "fileName": f"scan_{number}.pdf",
        "errorMsg": "the PDF is damaged" if state == "failed" else "",
        "docparser": {"cancelled": False, "partial": False, "pages": counts},
        **({} if state == "pending" else {"extractProgress": {"totalPages": pages, "extractedPages": pages}}),
    }


# What is pressed and smaller than 24 px, on the screen or scrolled out of it; of the list the first rows stand for all.
SMALL = """() => [...document.querySelectorAll(":is(button, input, select, summary, a):not(#documents li + li + li *)")]
    .map(one => [one, one.getBoundingClientRect()])
    .filter(([one, { width, height }]) => width && height && Math.min(width, height) < 24)
    .filter(([one]) => !one.closest(".skip, .check, #drop"))
    .map(([one, { width, height }]) => `${one.id || one.className || one.textContent}: ${width} x ${height}`)"""


@pytest.mark.parametrize("look", BOTH)
def test_axe_finds_nothing_in_a_long_list_and_pages_of_a_book_can_be_hit(site, look):
    """The service's answers are written here: so many documents would take it a while."""
    page = site.open(**LOOKS[look], motion="reduce")
    jobs = [told(number, 40) for number in range(DOCUMENTS)]
    book = told(DOCUMENTS + 2, BOOK)

    def events(route: Route) -> None:
        job = book if book["jobId"] in route.request.url else jobs[2]
        pages = [
            f"event: page\ndata: {json.dumps({'page': at + 1, 'state': 'queued'})}\n\n"
            for at in range(job["extractProgress"]["totalPages"])
        ]
        body = "".join([*pages, f"event: job\ndata: {json.dumps(job)}\n\n"])
        route.fulfill(body=body, content_type="text/event-stream")

    page.route(LISTED, lambda route: route.fulfill(json={"data": {"jobs": [*jobs, book], "nextCursor": None}}))
    page.route(EVENTS, events)
    drawn = {"Document-Pages": "40", "Content-Type": "image/svg+xml"}
    page.route("**/originals/*", lambda route: route.fulfill(body=ICON, headers=drawn))
    listed = [*jobs[2:], *jobs[:2], book]
    stored = json.dumps([{"id": job["jobId"], "name": job["fileName"]} for job in listed])
    page.evaluate("stored => localStorage.setItem('docparser.jobs', stored)", stored)
    site.reload(page)
    expect(page.locator('#documents li[data-stage="failed"]')).to_have_count(DOCUMENTS // 4)
    expect(page.locator("#strip button")).to_have_count(40)
    check(page, "many documents", dark=look == "narrow")
    page.locator("#order").select_option("oldest")
    page.locator("#documents .open").first.click()
    expect(page.locator("#strip button")).to_have_count(BOOK)
    assert page.evaluate(SMALL) == []


def test_axe_finds_what_is_there_to_find(site):
    page = site.open()
    page.evaluate(
        "document.documentElement.removeAttribute('lang'); document.querySelector('.lead').style.color = '#ddd'"
    )
    found = [line.split(" at ")[0] for line in violations(page)]
    assert sorted(found) == ["serious: color-contrast", "serious: html-has-lang"]


def test_progress_is_heard_by_quarters(site, vlm, file):
    page = site.open()
    expect(page.locator("#news")).to_have_attribute("role", "status")
    page.evaluate(LISTEN)
    with vlm.holding():
        page.set_input_files("#files", file(9))
        expect(page.locator("#news")).to_have_text("wells.pdf: 0 of 9 pages")
    expect(page.locator("#news")).to_have_text("wells.pdf: done, 9 pages")
    heard = page.evaluate("() => window.heard")
    assert len(heard) <= 6, heard


def test_what_ends_before_anything_is_heard_of_it_is_told(site, service, file):
    """As on a fast machine: a page is read before the browser asks."""
    page = site.open()

    def late(route: Route) -> None:
        service.wait_until_idle()
        route.continue_()

    for asked in (LISTED, EVENTS):
        page.route(asked, late)
    page.set_input_files("#files", file())
    expect(page.locator("#news")).to_have_text("wells.pdf: done, 1 page")


def test_what_is_over_is_not_told_again(site, file):
    page = site.open()
    page.set_input_files("#files", file())
    expect(page.locator("#news")).to_have_text("wells.pdf: done, 1 page")
    site.reload(page)
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    expect(page.locator("#news")).to_be_empty()


def test_nothing_moves_where_no_motion_is_wanted(site, vlm, file):
    """A page that is read breathes in the strip; with less motion it does not, and boxes lead to their text at once."""
    page = site.open()
    with vlm.holding():
        page.set_input_files("#files", file(2))
        page.locator("#next").click()  # what is chosen keeps still
        expect(page.locator('#strip [data-state="running"]:not([aria-current])')).to_be_visible()
        assert "breathe" in page.evaluate(MOTION)
        page.emulate_media(reduced_motion="reduce")
        assert page.evaluate(MOTION) == []
    expect(page.locator(".row[aria-current] .box").first).to_be_visible()
    page.evaluate("() => { Element.prototype.scrollIntoView = function ({ behavior }) { window.way = behavior; }; }")
    page.locator(".row[aria-current] .box").first.focus()
    assert page.evaluate("window.way") == "instant" and page.evaluate(MOTION) == []
    page.emulate_media(reduced_motion="no-preference")
    page.locator(".row[aria-current] .box").first.blur()
    page.locator(".row[aria-current] .box").first.focus()
    assert page.evaluate("window.way") == "smooth"


def test_headings_of_a_document_stand_below_its_name(site, says, file):
    says(page_of(WIDE))
    page = site.open()
    page.set_input_files("#files", file())
    headings = page.locator(".row[aria-current] .prose :is(h1, h3, h6)")
    expect(headings).to_have_count(3)
    assert [one.get_attribute("aria-level") for one in headings.all()] == ["3", "4", "3"]
