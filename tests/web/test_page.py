# SPDX-License-Identifier: Apache-2.0
"""The web page as a person uses it. `SCREENSHOTS=DIR` keeps pictures of it."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FileChooser, Page, Route, expect

from tests.web.accessibility import tab_to
from tests.web.pages import BLOCKS, WAIT_MS, page_of

HOSTILE = """# Harmless <script>document.title = "run"</script>

<img src="x" onerror="alert(1)"> <img src="https://evil.example/spy.png">
<svg onload="alert(1)"><script>alert(1)</script><a xlink:href="javascript:alert(1)"><text>svg</text></a></svg>
<a id="a" href="javascript:alert(1)">link</a> [markdown](javascript:alert(1))
<a href="data:text/html,<script>alert(1)</script>">d</a>
<iframe src="https://evil.example"></iframe> <object data="https://evil.example"></object>
<embed src="https://evil.example">
<form action="https://evil.example"><button>send</button></form> <base href="https://evil.example/">
<style>body{display:none}</style>
<div style="position:fixed;inset:0;background:url(https://evil.example/a)">over</div>
<math><mtext><mglyph><style><img src=x onerror=alert(1)>
</style></mglyph></mtext></math> <details open ontoggle="alert(1)">x</details>
<p id="sheets" class="top" name="body">clobber</p>

$\\href{javascript:alert(1)}{formula}$ $\\htmlId{drop}{x_1}$ $\\includegraphics{https://evil.example/x.png}$

last words
"""


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        page.wait_for_timeout(400)
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_upload_progress_blocks_table_and_formula(site, vlm, file):
    page = site.open()
    picture(page, "empty-light")
    with vlm.holding():
        page.set_input_files("#files", file(3))
        expect(page.locator("#state")).to_contain_text("of 3 pages")
    expect(page.locator("#state")).to_have_text("done, 3 pages")
    expect(page.locator("#strip button")).to_have_count(3)
    expect(page.locator(".row[aria-current] .prose table")).to_contain_text("0.048")
    expect(page.locator(".row[aria-current] .prose .katex-html").first).to_be_visible()
    expect(page.locator(".row[aria-current] .prose")).to_contain_text("the fee $5 or $10.")
    expect(page.locator(".row[aria-current] .prose img")).to_have_js_property("complete", True)
    assert page.locator(".row[aria-current] .prose img").evaluate("image => image.naturalWidth") == 100
    assert page.locator(".row[aria-current] .prose div.center").count() == 1
    page.locator('.row[aria-current] .box[data-kind="table"]').hover()
    expect(page.locator('.row[aria-current] .prose [data-lit="true"]')).to_contain_text("0.048")
    picture(page, "page-light")


def test_boxes_lie_over_their_blocks(site, file):
    page = site.open()
    page.set_input_files("#files", file())
    expect(page.locator(".row[aria-current] .box")).to_have_count(len(BLOCKS))
    expect(page.locator(".row[aria-current] .sheetpage img")).to_have_js_property("complete", True)
    frame = page.locator(".row[aria-current] .sheetpage img").bounding_box()
    for index, (label, (left, top, right, bottom), _) in enumerate(BLOCKS):
        box = page.locator(f'.box[data-index="{index}"]')
        words = {"doc_title": "document title"}.get(label, label)
        assert box.get_attribute("aria-label") == f"{words}, block {index + 1}"
        place = box.bounding_box()
        found = (
            (place["x"] - frame["x"]) / frame["width"] * 100,
            (place["y"] - frame["y"]) / frame["height"] * 140,
            place["width"] / frame["width"] * 100,
            place["height"] / frame["height"] * 140,
        )
        assert found == pytest.approx((left, top, right - left, bottom - top), abs=0.5)


def test_outlines_are_drawn_where_blocks_have_them(site, says, file):
    slanted, straight = [[10, 30], [88, 24], [90, 44], [12, 50]], [[10, 54], [90, 54], [90, 90], [10, 90]]
    spotted = {"rec_polys": [[[10, 8], [90, 8], [90, 20], [10, 20]]] * 2, "rec_texts": ["Wells", "Valley"]}
    told = json.loads(page_of(outlines={1: slanted, 2: straight}, spotting_res=spotted))
    told["blocks"][0]["block_label"] = "spotting"  # PaddleX has one block for all texts that it spotted
    says(json.dumps(told))
    page = site.open()
    page.set_input_files("#files", file())
    expect(page.locator(".row[aria-current] .box")).to_have_count(len(BLOCKS))
    expect(page.locator(".row[aria-current] .box polygon")).to_have_count(1)  # a straight outline is the box itself
    drawn = page.locator('.row[aria-current] .box[data-index="1"] polygon')
    expect(drawn).to_have_attribute("points", "10,30 88,24 90,44 12,50")
    frame, place = page.locator(".row[aria-current] .sheetpage img").bounding_box(), drawn.bounding_box()
    found = (place["x"] - frame["x"]) / frame["width"] * 100, (place["y"] - frame["y"]) / frame["height"] * 140
    assert found == pytest.approx((10, 24), abs=1.5)
    expect(page.locator(".row[aria-current] .sheetpage > .outline polygon")).to_have_count(2)
    page.locator("#boxes").uncheck()
    expect(page.locator(".row[aria-current] .sheetpage polygon").first).to_be_hidden()


def test_headings_have_the_levels_of_the_outline_and_heads_of_tables_name_their_columns(site, says, file):
    outline = [{"block_id": 0, "level": 3, "text": "Wells"}]
    says(page_of(beside={"outline": outline, "tableHeads": [{"block_id": 2, "rows": 1}]}))
    page = site.open()
    page.set_input_files("#files", file())
    prose = page.locator(".row[aria-current] .prose")
    expect(prose.locator("h3")).to_have_text("Wells of the Lower Valley")
    expect(prose.get_by_role("columnheader")).to_have_text(["Well", "March"])
    expect(prose.locator("th[scope=col]")).to_have_count(2)
    expect(prose.locator("td")).to_have_text(["Mill", "0.048"])


def test_blocks_say_that_their_text_is_the_files_own(site, says, file):
    differs = {"source": "vlm", "agreement": 0.918, "doubtful": True}
    says(page_of(told={0: {"source": "page", "agreement": None, "doubtful": False}, 1: differs}))
    page = site.open()
    page.set_input_files("#files", file())
    labels = ["document title, the file's own text, block 1",
              "text, agrees with the file's own text by 91 %, doubtful, block 2"]  # fmt: skip
    for index, label in enumerate(labels):
        expect(page.locator(f'.box[data-index="{index}"]')).to_have_attribute("aria-label", label)
    expect(page.locator(".box[data-own]")).to_have_count(1)


def test_doubtful_blocks_are_marked_by_more_than_a_colour(site, says, file):
    says(page_of(doubtful={0: 0.4199, 2: None}))
    page = site.open()
    page.set_input_files("#files", file())
    label = "document title, confidence 41 %, doubtful, block 1"
    expect(page.locator('.row[aria-current] .box[data-index="0"]')).to_have_attribute("aria-label", label)
    expect(page.locator('.row[aria-current] .box[data-index="2"]')).to_have_attribute(
        "aria-label", re.compile("the text was cut, doubtful")
    )
    expect(page.locator('.row[aria-current] .box[data-index="1"]')).to_have_attribute("aria-label", "text, block 2")
    assert (
        page.locator(".row[aria-current] .box[data-doubtful]").evaluate_all(
            "boxes => boxes.map(box => [getComputedStyle(box).borderStyle, getComputedStyle(box, '::after').content])"
        )
        == [["dashed", '"?"']] * 2
    )
    expect(page.locator(".row[aria-current] :is(h2, h1) .doubt")).to_have_attribute(
        "aria-label", re.compile("^Doubtful text: con")
    )
    expect(page.locator(".row[aria-current] .prose .doubt")).to_have_text(["?", "?"])
    expect(page.locator("#notice")).to_contain_text("2 blocks of page 1 are doubtful")
    expect(page.locator("#notice")).not_to_have_attribute("data-kind", "bad")
    picture(page, "doubtful")
    page.locator("#language").click()
    expect(page.locator("#notice")).to_contain_text("第 1 页有 2 个版面块存疑")
    expect(page.locator('.row[aria-current] .box[data-index="0"]')).to_have_attribute(
        "aria-label", "文档标题，置信度 41 %，存疑，第 1 块"
    )


def test_hostile_markdown_is_harmless(site, says, file):
    says(page_of(HOSTILE))
    page = site.open()
    page.set_input_files("#files", file())
    expect(page.locator(".row[aria-current] .prose")).to_contain_text("last words")
    page.wait_for_timeout(500)
    assert page.title() == "Document parser"
    text = page.locator(".row[aria-current] .prose")
    found = text.evaluate("""root => [...root.querySelectorAll("*")].flatMap(element => [
        ...(/^(script|svg|iframe|object|embed|form|style|base|img|button|details)$/i.test(element.localName)
            && !element.closest(".katex") ? [element.localName] : []),
        ...[...element.attributes].filter(({name, value}) => /^on/.test(name) || /javascript:|evil/.test(value)
            || (name === "id")).map(({name, value}) => `${name}=${value}`)])""")
    assert found == []
    assert page.locator(".row[aria-current] .prose a[href]").count() == 0
    # The sanitiser reads it in a document that runs nothing, and the policy says no there too.
    site.forgive("Content Security Policy")
    picture(page, "hostile")


def test_dropping_a_file_anywhere(site, file):
    page = site.open()
    data = base64.b64encode(Path(file()).read_bytes()).decode()
    transfer = page.evaluate_handle(
        """data => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([Uint8Array.from(atob(data), c => c.charCodeAt(0))], "dropped.pdf"));
        return transfer;
    }""",
        data,
    )
    page.dispatch_event("body", "dragenter", {"dataTransfer": transfer})
    expect(page.locator("#curtain")).to_be_visible()
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})
    expect(page.locator("#curtain")).to_be_hidden()
    expect(page.locator("#name")).to_have_text("dropped.pdf")
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()


def test_with_the_keyboard_alone(site, file):
    page = site.open()
    choosers: list[FileChooser] = []
    page.on("filechooser", lambda chooser: choosers.append(chooser))
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    tab_to(page, "#files")
    page.keyboard.press("Enter")
    deadline = time.monotonic() + WAIT_MS / 1000
    while not choosers and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    choosers[0].set_files(file(2))
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    page.keyboard.press("ArrowRight")
    expect(page.locator('#strip [aria-current="page"]')).to_have_text("2")
    expect(page.locator(".row[aria-current] .sheetpage img")).to_have_attribute("alt", "Page 2")
    tab_to(page, "#downloads summary")
    page.keyboard.press("Enter")
    tab_to(page, '[data-format="html"]')
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == "wells.html"
    expect(page.locator("#downloads summary")).to_be_focused()
    tab_to(page, '#strip [data-page="2"]')  # the pages are one stop
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".row[aria-current] .sheetpage img")).to_have_attribute("alt", "Page 1")
    expect(page.locator('#strip [data-page="1"]')).to_be_focused()
    tab_to(page, '.box[data-index="0"]')
    expect(page.locator(".row[aria-current] .prose h1")).to_have_attribute("data-lit", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator('.row[aria-current] .prose [data-lit="true"]')).to_contain_text("0.048")
    page.keyboard.press("Tab")  # the boxes of the page that is read are one stop, those of others none
    assert page.locator(".box:focus").count() == 0
    page.locator("[data-form=source][aria-pressed]").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".row[aria-current] .source")).to_contain_text("# Wells of the Lower Valley")


def test_arrows_scroll_what_is_wider_than_its_place_and_turn_pages_elsewhere(site, says, file):
    cells = "".join(f"<td>column {number}</td>" for number in range(30))
    formula = "+".join(f"x_{{{number}}}" for number in range(90))
    program = " ".join(f"program{number}" for number in range(90))  # what repeats is cut
    says(page_of(f"<table><tr>{cells}</tr></table>\n\n$${formula}$$\n\n```\n{program}\n```"))
    page = site.open()
    page.set_input_files("#files", file(2))
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    first = page.locator('.row[data-page="1"]')
    for wide in (".tablebox", ".display", "pre:not(.source)"):
        first.locator(wide).focus()
        page.keyboard.press("ArrowRight")
        expect(first.locator(wide)).not_to_have_js_property("scrollLeft", 0)
        expect(page.locator("#pagename")).to_have_text("Page 1")
    page.locator("#zoomin").click()
    first.locator(".box").first.focus()
    page.keyboard.press("ArrowRight")
    expect(first.locator(".picture")).not_to_have_js_property("scrollLeft", 0)
    expect(page.locator("#pagename")).to_have_text("Page 1")
    page.locator("#sheets").focus()
    page.keyboard.press("Shift+ArrowRight")  # extends a selection
    expect(page.locator("#pagename")).to_have_text("Page 1")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#pagename")).to_have_text("Page 2")


def test_a_failed_page_says_why_and_is_tried_again(site, service, file):
    refuse = service.log.parent / "refuse"
    refuse.write_text("2")
    page = site.open()
    page.set_input_files("#files", [file(2, f"{name}.pdf") for name in ("first", "second", "third")])
    expect(page.locator('li[data-stage="partly"]')).to_have_count(3)
    expect(page.locator("#notice")).to_contain_text("1 page could not be parsed.")
    expect(page.locator("#state")).to_have_text("ended, 1 of 2 pages failed")
    page.locator("#downloads summary").click()
    with page.expect_download() as download:
        page.locator('[data-format="chunks"]').click()
    assert download.value.suggested_filename == "first (1 of 2 pages).chunks.jsonl"
    page.locator("#all").check()
    page.locator("#many-download").click()
    expect(page.locator("#zippart")).to_have_text("3 of these are not complete.")
    page.keyboard.press("Escape")
    page.locator("#all").uncheck()
    page.locator("#next").click()
    expect(page.locator(".row[aria-current] .prose")).to_contain_text("the VLM refused this page")
    refuse.unlink()
    page.locator("#retry").click()
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    page.locator("#all").check()
    page.locator("#many-retry").click()  # those that have failed pages
    expect(page.locator('li[data-stage="done"]')).to_have_count(3)


@pytest.mark.parametrize(
    ("state", "done", "words", "said"),
    [
        ("failed", 0, "pages/day is used up", "This document could not be parsed."),
        ("done", 2, "the pages could not be joined", "All pages were parsed, but their tables and headings could not"),
    ],
)
def test_a_document_that_could_not_be_opened_or_joined_is_tried_again(site, service, file, state, done, words, said):
    """The service says so once; in truth the job is done."""
    page = site.open()
    told: dict[str, Any] = {}

    def tell(route: Route) -> None:
        told.update(service.ended(route.request.url.split("/")[-2]))
        pages = {"queued": 0, "running": 0, "done": done, "failed": 0}
        wrong = told | {"state": state, "errorMsg": words, "docparser": told["docparser"] | {"pages": pages}}
        body = f"id: 1\nevent: job\ndata: {json.dumps(wrong)}\n\n"
        route.fulfill(body=body, content_type="text/event-stream")

    page.route("**/events", tell, times=1)
    page.set_input_files("#files", file(2))
    expect(page.locator("#notice")).to_contain_text(said)
    expect(page.locator("#notice .words")).to_have_text(words)
    page.locator("#retry").click()
    expect(page.locator("#problem .says")).to_have_text("Nothing is tried again: pages that took too long are not.")
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    expect(page.locator("#retry")).to_be_hidden()
    expect(page.locator("#notice")).to_be_hidden()


def test_download_reload_and_remove(site, file):
    page = site.open()
    page.set_input_files("#files", file())
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    page.locator("#downloads summary").click()
    with page.expect_download() as download:
        page.locator('[data-format="zip"]').click()
    assert download.value.suggested_filename == "wells.zip"
    site.reload(page)
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    page.locator("#remove").click()
    expect(page.locator("#removetext")).to_have_text("1 document and its results will be deleted.")
    page.keyboard.press("Escape")
    expect(page.locator("#remove")).to_be_focused()
    page.keyboard.press("Enter")
    page.locator("#removeyes").click()
    expect(page.locator("#viewer")).to_be_hidden()
    expect(page.locator("#files")).to_be_focused()
    expect(page.locator("#documents li")).to_have_count(0)


def test_what_was_read_is_read_on_after_a_reload_and_after_back(site, file):
    page = site.open()
    page.set_input_files("#files", [file(3, "read.pdf"), file(1, "newest.pdf")])
    expect(page.locator('li[data-stage="done"]')).to_have_count(2)
    page.locator('#strip [data-page="3"]').click()
    site.reload(page)
    expect(page.locator("#pagename")).to_have_text("Page 3")
    expect(page.locator("#name")).to_have_text("read.pdf")
    page.locator('a[href="docs"]').click()
    page.go_back()
    expect(page.locator("#pagename")).to_have_text("Page 3")
    expect(page.locator('.row[data-page="3"]')).to_be_in_viewport()
    page.locator("#documents .open").first.click()
    expect(page.locator("#name")).to_have_text("newest.pdf")
    expect(page.locator("#pagename")).to_have_text("Page 1")


def test_what_is_no_document_is_said(site, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no document")
    page = site.open()
    page.set_input_files("#files", str(path))
    expect(page.locator("#problem .about")).to_have_text("notes.txt")
    expect(page.locator("#problem .says")).to_have_text("This file is neither a PDF nor a picture that is known here.")
    expect(page.locator("#problem .words")).to_be_hidden()
    page.locator("#problem summary").click()
    expect(page.locator("#problem .words")).to_contain_text("file: neither an image nor a PDF")
    expect(page.locator("#documents li")).to_have_count(0)
    page.locator("#problem .close").click()
    expect(page.locator("#problem")).to_be_hidden()
    site.forgive("400")


def test_narrow_and_dark(site, file):
    page = site.open(width=380, height=780, scheme="dark")
    picture(page, "empty-narrow")
    page.set_input_files("#files", file(2))
    expect(page.locator(".row[aria-current] .box").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture(page, "page-narrow")
    page.locator('[data-pane="reading"]').click()
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    expect(page.locator(".row[aria-current] .sheetpage")).to_be_hidden()
    picture(page, "text-narrow")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.set_viewport_size({"width": 1280, "height": 860})
    page.locator("#theme").click()
    picture(page, "page-dark")


def test_on_a_phone_a_document_comes_onto_the_screen(site, file):
    page = site.open(width=390, height=664)
    page.set_input_files("#files", [file(1, f"{name}.pdf") for name in ("first", "second")])
    expect(page.locator('li[data-stage="done"]')).to_have_count(2)
    page.locator("#documents .open").last.click()
    expect(page.locator("#name")).to_be_in_viewport()
    assert page.locator("#viewer").bounding_box()["y"] < 100


def test_the_text_of_a_page_is_printed(site, says, file):
    says(page_of("\n\n".join(f"line {number}" for number in range(200))))
    page = site.open(width=390, height=664, scheme="dark")
    page.set_input_files("#files", file(2))
    expect(page.locator(".row[aria-current] .prose")).to_contain_text("line 199")
    page.emulate_media(media="print")
    expect(page.locator(".row[aria-current] .prose")).to_be_visible()
    for hidden in ("#remove", ".panebars", ".top", ".side", ".picture", ".row:not([aria-current]) .prose"):
        expect(page.locator(hidden).first).to_be_hidden()
    assert len(re.findall(rb"/Type /Page\b", page.pdf())) > 3


def test_nobody_tells_the_time_that_is_left_from_a_clock_that_is_behind(site):
    pages = {"done": 1, "failed": 0}
    progress = {"startTime": "2026-01-01T00:02:00Z", "totalPages": 3}
    left = site.open().evaluate(
        """async (job) => {
            const { duration } = await import("/ui/stages.js");
            return ["2026-01-01T00:00:10Z", "2026-01-01T00:02:10Z"].map((now) => duration({ job }, Date.parse(now)));
        }""",
        {"extractProgress": progress, "docparser": {"pages": pages}},
    )
    assert left == [None, ["time.left", {"time": ["time.seconds", {"count": 20}]}]]


# While a document is sent the connection breaks twice: before the service has it, and before its answer is here.
BREAKS = """
const { send } = XMLHttpRequest.prototype;
window.made = [];
window.broken = 0;
XMLHttpRequest.prototype.send = function (body) {
  if (window.broken === 2) return send.call(this, body);
  window.broken++;
  const fail = () => this.onerror();
  if (window.broken === 1) return setTimeout(fail);
  this.onload = () => {
    window.made.push(JSON.parse(this.response).data.jobId);
    fail();
  };
  send.call(this, body);
};
0;
"""


def test_a_document_survives_a_connection_that_breaks(site, file):
    """It is sent again, and no second job is made."""
    page = site.open()
    page.evaluate(BREAKS)
    page.set_input_files("#files", file())
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    [made] = page.evaluate("made")
    assert [one["id"] for one in json.loads(page.evaluate("localStorage['docparser.jobs']"))] == [made]
    expect(page.locator("#problem")).to_be_hidden()
