# SPDX-License-Identifier: Apache-2.0
"""A folder of documents, all at work at once: a browser opens six connections to a host, and the page needs some."""

from __future__ import annotations

import datetime
import json
import re
import statistics
import time
import zipfile

import pytest
from playwright.sync_api import Page, Request, expect

from tests.web.copies import copies
from tests.web.pages import WAIT_MS

COUNT = 45


def all_are_sent(page: Page) -> None:
    """Each has the time of its job in the place of its size."""
    expect(page.locator("#documents time:not([datetime])")).to_have_count(0, timeout=WAIT_MS)


def listed(page: Page) -> list[str]:
    return page.locator("#documents .file").all_text_contents()


@pytest.mark.long
def test_more_documents_at_work_than_a_browser_has_connections(site, vlm, file, tmp_path):
    page = site.open()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(f"{request.method} {request.url.rpartition('/')[2]}"))
    with vlm.holding():
        page.set_input_files("#files", copies(file, tmp_path / "many", COUNT))
        expect(page.locator("#documents li")).to_have_count(COUNT)
        assert len(set(listed(page))) == COUNT
        expect(page.locator("#name")).to_have_text("scan_01.pdf")
        page.locator("#documents .open").first.click()
        expect(page.locator("#name")).to_have_text(f"scan_{COUNT}.pdf")
        all_are_sent(page)
        page.locator("#cancel").click()
        expect(page.locator("#state")).to_have_text("cancelled")
        site.reload(page)
        expect(page.locator("#documents li")).to_have_count(COUNT)
        expect(page.locator("#capacity")).to_contain_text("pages in work")
    expect(page.locator("#documents progress:visible")).to_have_count(0, timeout=WAIT_MS)
    assert not [one for one in asked if re.fullmatch("GET [0-9a-f]{32}", one)], "one request asks about all of them"
    assert asked.count("GET events") <= 4, "one stream for each document that was looked at, and after the reload"
    page.locator("#documents .open").last.click()
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    page.locator("#kind").select_option("trouble")  # the one that was cancelled
    expect(page.locator("#documents li")).to_have_count(1)
    page.locator("#kind").select_option("done")
    page.locator("#filter").fill("_1")
    page.locator("#order").select_option("name")
    expect(page.locator("#documents li")).to_have_count(10)
    assert listed(page) == [f"scan_{number}.pdf" for number in range(10, 20)]
    page.locator("#all").check()
    expect(page.locator("#picked")).to_have_text("10 selected")
    page.locator("#documents .pick").first.uncheck()
    page.locator("#many-download").click()
    page.locator("#zipformats [value=json]").check()
    page.locator("#zipformats [value=docx]").uncheck()
    with page.expect_download() as download:
        page.locator("#zipstart").click()
    assert download.value.suggested_filename == "documents.zip"
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.testzip() is None
        names = [f"scan_{number}.{suffix}" for number in range(11, 20) for suffix in ("md", "json")]
        assert archive.namelist() == names
        assert b"Wells of the Lower Valley" in archive.read("scan_11.md")
        made = datetime.datetime(*archive.getinfo("scan_11.md").date_time, tzinfo=datetime.UTC)
        assert abs(datetime.datetime.now(datetime.UTC) - made) < datetime.timedelta(hours=1)
    page.locator("#many-remove").click()
    page.locator("#removeyes").click()
    expect(page.locator("#documents li")).to_have_count(1)
    page.locator("#filter").fill("")
    expect(page.locator("#documents li")).to_have_count(COUNT - 10)
    page.locator("#clear").click()
    page.locator("#removeyes").click()
    expect(page.locator("#documents li")).to_have_count(1)  # what the filter left out
    expect(page.locator("#documents li")).to_have_attribute("data-stage", "cancelled")


def test_one_document_comes_in_several_formats_as_one_archive(site, file):
    page = site.open()
    page.set_input_files("#files", file(2, "well.report.pdf"))
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    page.locator("#downloads > :first-child").click()
    page.locator('[data-format="several"]').click()
    for format in ("docx", "pdf", "chunks", "html"):
        page.locator(f"#zipformats [value={format}]").check()
    with page.expect_download() as download:
        page.locator("#zipstart").click()
    assert download.value.suggested_filename == "well.report.zip"
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.testzip() is None
        suffixes = ("md", "html", "pdf", "docx", "chunks.jsonl")
        assert archive.namelist() == [f"well.report.{suffix}" for suffix in suffixes]
        assert archive.read("well.report.pdf").startswith(b"%PDF-") and archive.read("well.report.docx")[:2] == b"PK"
        assert archive.getinfo("well.report.docx").date_time[0] > 1980


def test_tabs_share_their_documents(site, file, tmp_path):
    first = site.open()
    first.set_input_files("#files", copies(file, tmp_path / "first", 2))
    expect(first.locator("#documents li")).to_have_count(2)
    second = first.context.new_page()
    second.goto(first.url)
    expect(second.locator("#documents li")).to_have_count(2)
    second.set_input_files("#files", copies(file, tmp_path / "second", 1))
    expect(second.locator("#documents li")).to_have_count(3)
    expect(first.locator("#documents li")).to_have_count(3)
    first.set_input_files("#files", copies(file, tmp_path / "third", 1))
    expect(second.locator("#documents li")).to_have_count(4)
    expect(second.locator("#documents progress:visible")).to_have_count(0)
    second.locator("#remove").click()
    second.locator("#removeyes").click()
    expect(first.locator("#documents li")).to_have_count(3)
    assert len(json.loads(first.evaluate("localStorage['docparser.jobs']"))) == 3


def test_three_windows_seen_at_once_have_two_streams_at_most(site, vlm, file, tmp_path):
    """One window has the focus. Each shows a document of its own, and each hears how its document goes on."""
    first = site.open()
    context = first.context
    focus = "document.hasFocus = () => window.focused ?? false"
    turned = "on => { window.focused = on; dispatchEvent(new Event(on ? 'focus' : 'blur')); }"
    context.add_init_script(focus)
    first.evaluate(focus)
    open_now: set[Request] = set()
    most: list[int] = []

    def begins(request: Request) -> None:
        if request.url.endswith("/events"):
            open_now.add(request)
            most.append(len(open_now))

    context.on("request", begins)
    for end in ("requestfinished", "requestfailed"):
        context.on(end, lambda request: open_now.discard(request))
    with vlm.holding():
        first.set_input_files("#files", copies(file, tmp_path / "three", 3))
        all_are_sent(first)
        pages = [first, context.new_page(), context.new_page()]
        for number, page in enumerate(pages):
            if number:
                page.goto(first.url)
            page.locator("#documents .open").nth(number).click()
        asked = len(most)
        for page in (pages[1], pages[2], pages[0]):
            for other in sorted(pages, key=lambda other: other == page):  # one loses it before another gets it
                other.evaluate(turned, other == page)
        expected = time.monotonic() + WAIT_MS / 1000
        while len(most) < asked + 6:
            assert time.monotonic() < expected, "windows without the focus ask for news"
            first.wait_for_timeout(50)
    for page in pages:
        expect(page.locator("#state")).to_have_text("done, 1 page")
        expect(page.locator('#strip [data-state="done"]')).to_have_count(1)
    # The browser tells of an end some moments late, when the next window may ask already.
    assert statistics.median(most[asked:]) <= 2 and max(most) <= 3


def test_a_tab_that_is_not_seen_has_no_stream_and_catches_up(site, vlm, file):
    page = site.open()
    streams: list[str] = []
    page.on("requestfailed", lambda request: streams.append(request.url.rpartition("/")[2]))
    turned = """state => {
        Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with vlm.holding():
        page.set_input_files("#files", file(2))
        expect(page.locator("#strip button")).to_have_count(2)
        expect(page.locator('#strip [data-state="running"]')).not_to_have_count(0)
        page.evaluate(turned, "hidden")
        while "events" not in streams:
            page.wait_for_timeout(20)
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    expect(page.locator('#strip [data-state="done"]')).to_have_count(0)
    page.evaluate(turned, "visible")
    expect(page.locator('#strip [data-state="done"]')).to_have_count(2)


def test_a_folder_is_dropped_with_the_folders_in_it(site, file, tmp_path):
    page = site.open()
    copies(file, tmp_path / "archive", 2)
    copies(file, tmp_path / "archive/older", 1)
    (tmp_path / "archive/.DS_Store").write_bytes(b"x")
    (tmp_path / "archive/older/scan_01.pdf").rename(tmp_path / "archive/older/inner.pdf")
    devtools = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(tmp_path / "archive")], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, "x": 400, "y": 300, "data": data})
    expect(page.locator("#documents li")).to_have_count(3)
    all_are_sent(page)
    assert sorted(listed(page)) == ["inner.pdf", "scan_01.pdf", "scan_02.pdf"]
    expect(page.locator("#problem")).to_be_hidden()
    site.reload(page)
    page.set_input_files("#folder", str(tmp_path / "archive/older"))
    expect(page.locator("#documents li")).to_have_count(4)
    expect(page.locator("li progress:visible")).to_have_count(0)
    page.locator("#order").select_option("oldest")
    assert sorted(page.locator("#documents .folder").all_text_contents()) == [
        "archive",
        "archive",
        "archive/older",
        "older",
    ]
    page.locator("#all").check()
    page.locator("#many-download").click()
    page.locator("#zipformats [value=docx]").uncheck()
    with page.expect_download() as download:
        page.locator("#zipstart").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert sorted(archive.namelist()) == [
            "archive/older/inner.md",
            "archive/scan_01.md",
            "archive/scan_02.md",
            "older/inner.md",
        ]


def test_a_picture_is_pasted_unless_its_text_goes_into_a_field(site):
    page = site.open()
    paste = """async ([name, words, place]) => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 60, height: 40 });
        const blob = await new Promise((done) => canvas.toBlob(done));
        const clipboardData = new DataTransfer();
        clipboardData.items.add(new File([blob], name, { type: "image/png" }));
        if (words) clipboardData.setData("text/plain", words);
        const target = place ? document.getElementById(place) : document;
        target.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
    }"""
    for name, words, place in (
        ("cells.png", "1\t2", "filter"),
        ("picture.png", "", "filter"),
        ("slide.png", "Wells", ""),
        ("file.png", "Wells", "files"),
    ):
        page.evaluate(paste, [name, words, place])
    expect(page.locator("#documents li")).to_have_count(3)
    assert listed(page) == ["file.png", "slide.png", "picture.png"]
