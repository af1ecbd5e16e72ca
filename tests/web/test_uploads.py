# SPDX-License-Identifier: Apache-2.0
"""Files on their way to the service, and the list that a key has on any machine."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from tests.support.paths import ROOT
from tests.web.conftest import Site
from tests.web.copies import copies
from tests.web.pages import HURRY, page_of

SUBMIT = "**/api/v2/ocr/jobs"
FULL = {"code": 503, "msg": "The disk has no room."}
SLOW = 60_000  # bytes a second


def row(page: Page, name: str) -> str:
    return f'#documents li:has(.file[title="{name}"])'


def test_files_are_listed_at_once_and_take_nobody_from_what_he_reads(site, file, tmp_path):
    page = site.open()
    page.set_input_files("#files", file(1, "read.pdf"))
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    held: list[Route] = []
    page.route(SUBMIT, lambda route: held.append(route))
    page.set_input_files("#files", copies(file, tmp_path / "some", 4))
    expect(page.locator("#documents li")).to_have_count(5)
    expect(page.locator('li[data-stage="sending"]')).to_have_count(2)
    expect(page.locator(f"{row(page, 'scan_04.pdf')} time")).to_have_text("1 kB")
    expect(page.locator("#name")).to_have_text("read.pdf")
    page.locator(f"{row(page, 'scan_04.pdf')} .open").click()
    expect(page.locator("#state")).to_have_text("waiting")
    page.locator("#cancel").click()
    expect(page.locator("#documents li")).to_have_count(4)
    while len(held) < 2:
        page.wait_for_timeout(20)
    for route in held[:2]:
        route.fulfill(status=503, body=json.dumps(FULL))
    expect(page.locator("#held")).to_contain_text("3 files wait")
    expect(page.locator('li[data-stage="waiting"]')).to_have_count(3)
    expect(page.locator("#problem")).to_be_hidden()
    assert len(held) == 2, "the third is not sent for the same answer"
    page.unroute(SUBMIT)
    page.locator(f"{row(page, 'scan_01.pdf')} .open").click()
    expect(page.locator("#notice .words")).to_have_text(FULL["msg"])
    expect(page.locator("#retry")).to_have_text("Send again")
    page.locator("#retry").click()
    expect(page.locator('li[data-stage="done"]')).to_have_count(4)
    expect(page.locator("#held")).to_be_hidden()
    site.forgive("503")


def test_the_share_that_is_sent_is_shown_and_sending_ends_when_it_is_cancelled(site, service, tmp_path):
    page = site.open()
    large = tmp_path / "large.png"
    large.write_bytes((ROOT / "tests/data/letter.png").read_bytes() + bytes(10 * SLOW))
    devtools = page.context.new_cdp_session(page)
    devtools.send("Network.enable")
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": SLOW}
    devtools.send("Network.emulateNetworkConditions", slow)
    page.set_input_files("#files", str(large))
    expect(page.locator(".row[aria-current] .sheetpage img")).to_have_attribute("alt", "Page 1 as it came")
    assert (
        page.locator(".row[aria-current] .sheetpage img").evaluate(
            "image => image.decode().then(() => image.naturalWidth)"
        )
        > 100
    )
    page.wait_for_function(
        "() => { const { value } = document.querySelector('li progress'); return 0 < value && value < 1; }"
    )
    page.locator("#cancel").click()
    expect(page.locator("#documents li")).to_have_count(0)
    expect(page.locator("#problem")).to_be_hidden()


def test_hundreds_of_documents_are_drawn_without_delay(site):
    count = 500
    page = site.open()
    *seconds, arranged = page.evaluate(
        """async (count) => {
            const { Sidebar } = await import("/ui/sidebar.js");
            const sidebar = new Sidebar(() => {});
            const pages = { done: 1, failed: 0, queued: 1, running: 0 };
            const [createTime, extractProgress] = ["2026-03-09T17:05:00.000Z", { totalPages: 2 }];
            const job = { state: "running", createTime, docparser: { pages }, extractProgress };
            const made = (_, at) => ({ id: String(at), name: `scan_${at}.pdf`, job, upload: null });
            const all = Array.from({ length: count }, made);
            const began = performance.now();
            sidebar.show(all, all[0]);
            document.getElementById("documents").getBoundingClientRect();
            const drawn = performance.now();
            for (const entry of all) sidebar.update(entry);
            document.getElementById("documents").getBoundingClientRect();
            const updated = performance.now();
            document.getElementById("kind").value = "busy";
            let arranged = 0;
            sidebar.addEventListener("pick", () => arranged++);
            for (const entry of all) sidebar.update(entry);
            await null;
            return [...[drawn - began, updated - drawn].map((ms) => ms / 1000), arranged];
        }""",
        count,
    )
    assert page.locator("#documents li").count() == count and max(seconds) < 2, seconds
    assert arranged == 1, "a filtered list is arranged once for all that change together"
    assert page.locator("#documents :is(button, input)[tabindex='0']").count() == 2, "one row is a stop of the Tab key"
    page.locator("#documents .open").first.focus()
    page.keyboard.press("End")
    expect(page.locator("#documents .open").last).to_be_focused()
    expect(page.locator("#documents .open").last).to_be_in_viewport()


def test_thousands_of_documents_leave_the_list_without_delay(site):
    page = site.open()
    expect(page.locator("#capacity")).to_have_text("Ready")
    seconds, changes, left, stored = page.evaluate(
        """async () => {
            const { Documents } = await import("/ui/documents.js");
            const { Actions } = await import("/ui/actions.js");
            const listed = Array.from({ length: 20_000 }, (_, at) => ({ id: `job-${at}`, name: `scan_${at}.pdf` }));
            localStorage["docparser.jobs"] = JSON.stringify(listed);
            window.fetch = async (path) => path.includes("purge")
                ? new Response('{"data": null}') : new Promise(() => {});
            const documents = new Documents();
            documents.restore();
            let changes = 0;
            documents.addEventListener("change", () => changes++);
            const began = performance.now();
            await new Actions(documents, () => {}).remove(documents.list.slice(0, 1000));
            const seconds = (performance.now() - began) / 1000;
            return [seconds, changes, documents.list.length, JSON.parse(localStorage["docparser.jobs"]).length];
        }"""
    )
    assert left == stored == 19_000 and changes == 20 and seconds < 10, (seconds, changes)


def test_what_cannot_be_read_in_a_folder_costs_none_of_its_other_files(site):
    page = site.open()
    files, lost = page.evaluate(
        """async () => {
            const { filesOf, filesOfFolder } = await import("/ui/dropped.js");
            const entry = (name, more) => ({ name, fullPath: `/archive/${name}`, ...more });
            const good = entry("good.pdf", { isFile: true, file: (done) => done(new File(["x"], "good.pdf")) });
            const bad = entry("bad.pdf", { isFile: true, file: (_, failed) => failed(new Error()) });
            const locked = entry("locked", {
                isDirectory: true, createReader: () => ({ readEntries: (_, failed) => failed(new Error()) }),
            });
            let given = [[bad, good, locked], []];
            const reader = { readEntries: (done) => done(given.shift()) };
            const folder = entry("archive", { isDirectory: true, createReader: () => reader });
            const { files, lost } = await filesOf({ items: [{ webkitGetAsEntry: () => folder }], files: [] });
            const paths = ["archive/a.pdf", "archive/.git/b.pdf"];
            const chosen = paths.map((path) => ({ name: "x", webkitRelativePath: path }));
            const kept = filesOfFolder(chosen).map(({ webkitRelativePath: path }) => path);
            return [[...files.map(({ name }) => name), ...kept], lost];
        }"""
    )
    assert files == ["good.pdf", "archive/a.pdf"] and sorted(lost) == ["bad.pdf", "locked"]


def test_the_list_of_a_key_is_there_on_another_machine(keyed, browser, file):
    site, parser = keyed
    page = enter(site)
    page.set_input_files("#files", file(2, "mine.pdf"))
    expect(page.locator(".row[aria-current] .prose")).to_contain_text("page 1")
    other = enter(site)  # a context of its own, which stores nothing of the first
    expect(other.locator("#name")).to_have_text("mine.pdf")
    expect(other.locator(".row[aria-current] .prose")).to_contain_text("page 1")
    assert not other.evaluate("localStorage['docparser.jobs']"), "the key is forgotten with its tab, and so is its list"
    other.locator('#strip [data-page="2"]').click()
    site.reload(other)
    expect(other.locator("#name")).to_have_text("mine.pdf")
    expect(other.locator("#pagename")).to_have_text("Page 2")
    assert site.foreign == [] and [words for words in site.troubles if "401" not in words] == []


def test_who_refuses_to_give_a_key_is_asked_again_only_for_what_he_does(keyed, file):
    site, _ = keyed
    page = site.open()
    page.context.add_init_script(HURRY)
    dialog, cancel = page.locator("#keydialog"), page.locator("#keycancel")
    expect(dialog).to_be_visible()
    page.evaluate(HURRY)
    cancel.click()
    for _ in range(3):  # nothing asks while the dialog is open
        page.wait_for_event("response", lambda response: response.url.endswith("/capacity"))
    expect(dialog).to_be_hidden()
    page.set_input_files("#files", file())
    expect(dialog).to_be_visible()
    cancel.click()
    expect(page.locator("#held .says")).to_have_text("The service needs a valid key. 1 file waits for it.")
    page.locator("#key").click()
    page.locator("#keyvalue").fill("a-key")
    # Whatever the page asks for by itself came with the key, before that is withdrawn.
    with page.expect_response(re.compile(r"/capabilities$")), page.expect_response(re.compile(r"/jobs\?limit=")):
        page.keyboard.press("Enter")
    expect(page.locator('li[data-stage="done"]')).to_have_count(1)
    expect(page.locator(".row[aria-current] .prose")).to_contain_text("page 1")
    expect(page.locator("#held")).to_be_hidden()
    expect(page.locator("#capacity")).to_have_text("Ready")
    page.evaluate("sessionStorage.setItem('docparser.key', 'withdrawn')")
    expect(page.locator("#capacity")).to_have_text("The service needs a valid key.")
    expect(page.locator("#key")).to_be_visible()
    expect(dialog).to_be_hidden()
    page.locator("#key").click()
    expect(page.locator("#keywrong")).to_be_visible()
    assert site.foreign == [] and [words for words in site.troubles if "401" not in words] == []


def test_a_key_that_is_refused_or_cannot_be_one_is_said_to_be(keyed):
    site, _ = keyed
    page = site.open()
    wrong, value = page.locator("#keywrong"), page.locator("#keyvalue")
    expect(value).to_be_visible()
    expect(wrong).to_be_hidden()
    value.fill("a-kez")
    page.keyboard.press("Enter")
    expect(wrong).to_have_text("The service does not accept the key that it was given.")
    for no_key in ("密钥", "clé", "  "):
        value.fill(no_key)
        page.keyboard.press("Enter")
        expect(wrong).to_have_text("A key has only letters, digits and signs of the English keyboard.")
        expect(value).to_be_visible()
    value.fill(" a-key ")
    page.keyboard.press("Enter")
    expect(page.locator("#capacity")).to_have_text("Ready")
    assert site.foreign == [] and [words for words in site.troubles if "401" not in words] == []


def test_a_key_that_something_else_needed_sends_what_waits(keyed, file):
    site, _ = keyed
    page = site.open()
    dialog, cancel = page.locator("#keydialog"), page.locator("#keycancel")
    expect(dialog).to_be_visible()
    cancel.click()
    page.set_input_files("#files", file())
    expect(dialog).to_be_visible()
    cancel.click()
    expect(page.locator("#held")).to_be_visible()
    page.evaluate(
        """async () => {
            (await import("/ui/key.js")).wanted();
            (await import("/ui/api.js")).capacity();
        }"""
    )
    page.locator("#keyvalue").fill("a-key")
    page.keyboard.press("Enter")
    expect(page.locator('li[data-stage="done"]')).to_have_count(1)
    expect(page.locator("#held")).to_be_hidden()
    assert site.foreign == [] and [words for words in site.troubles if "401" not in words] == []


def enter(site: Site) -> Page:
    """A page in a new context, where the key was given."""
    page = site.open()
    page.locator("#keyvalue").fill("a-key")
    page.keyboard.press("Enter")
    expect(page.locator("#capacity")).not_to_be_empty()
    return page


def test_when_a_document_goes_is_told_and_that_it_is_gone(site, file):
    page = site.open()
    page.set_input_files("#files", [file(1, "first.pdf"), file(2, "second.pdf")])
    expect(page.locator('li[data-stage="done"]')).to_have_count(2)
    expect(page.locator("#documents .further")).to_have_text([re.compile(r"\d+ s"), re.compile(r"\d+ s")])
    ends = page.locator("#documents time").first.get_attribute("datetime")
    assert ends
    gone = datetime.datetime.fromisoformat(ends) + datetime.timedelta(hours=72)
    expect(page.locator("#until")).to_contain_text(f"deleted by {gone.day} {gone:%b}")
    removed = [{"id": character * 32, "name": f"{character}.pdf"} for character in "ab"]
    page.evaluate(
        """removed => {
            const known = JSON.parse(localStorage["docparser.jobs"]);
            localStorage["docparser.jobs"] = JSON.stringify([...known, ...removed]);
        }""",
        removed,
    )
    site.reload(page)
    expect(page.locator("#problem p")).to_have_count(1)
    expect(page.locator("#problem p")).to_contain_text("a.pdf")
    expect(page.locator("#problem p")).to_contain_text("and 1 other")
    expect(page.locator("#problem p")).to_contain_text("No longer on the service")
    expect(page.locator("#documents li")).to_have_count(2)
    page.locator("#documents .pick").first.check()
    page.locator("#many-remove").click()
    page.locator("#removeyes").click()
    expect(page.locator("#documents li")).to_have_count(1)
    expect(page.locator("#documents .open")).to_be_focused()


def test_the_empty_page_says_what_is_read_and_has_a_sample(site):
    page = site.open()
    page.locator(".options summary").click()
    page.locator("#pages").fill("2-5")  # it is no range of the sample
    expect(page.locator("#welcome")).to_contain_text("PNG, JPEG, TIFF")
    expect(page.locator("#limits")).to_have_text("A file may have up to 256 MB and 2,000 pages.")
    expect(page.locator("#kept")).to_contain_text("72 hours")
    page.locator("#sample").click()
    expect(page.locator("#name")).to_have_text("sample.png")
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    expect(page.locator("#welcome")).to_be_hidden()


def test_tables_are_copied_as_tables(site, says, file):
    cells = ("007", "123456789012345678", "=1+1", "-0", "12.50", "1,234", "")
    table = f"<table><tr>{''.join(f'<td>{cell}</td>' for cell in ('0.048', *cells))}</tr></table>"
    says(page_of(told={2: {"block_content": table}}))
    page = site.open()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.set_input_files("#files", file())
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    page.locator("#copy").click()
    expect(page.locator("#copy")).to_have_text("Copied")
    plain, rich = page.evaluate(
        """async () => {
            const [item] = await navigator.clipboard.read();
            return Promise.all(["text/plain", "text/html"].map(async (type) => (await item.getType(type)).text()));
        }"""
    )
    assert plain.startswith("# Wells of the Lower Valley")
    assert "<table" in rich and "<td" in rich and "0.048" in rich and "data-block" not in rich and "\\bar{c}" in rich
    kept = page.evaluate("[...document.querySelectorAll('.row[aria-current] td')].length")
    as_text = re.findall(r"""<td style="mso-number-format:'\\@'">(.*?)</td>""", rich)
    assert kept == 8 and as_text == ["007", "123456789012345678", "=1+1", "-0"], rich


def test_the_page_is_enlarged_and_gone_to_by_its_number(site, vlm, file):
    page = site.open()
    page.set_input_files("#files", file(12))
    expect(page.locator(".row[aria-current] .box").first).to_be_visible()
    width = page.locator(".row[aria-current] .sheetpage").bounding_box()["width"]
    page.locator("#zoomin").click()
    page.locator("#zoomin").click()
    expect(page.locator("#fit")).to_have_text("200 %")
    assert page.locator(".row[aria-current] .sheetpage").bounding_box()["width"] > 1.8 * width
    page.locator("#fit").click()
    assert page.locator(".row[aria-current] .sheetpage").bounding_box()["width"] == width
    page.locator("#jump").fill("11")
    page.keyboard.press("Enter")
    expect(page.locator("#pagename")).to_have_text("Page 11")
    page.locator("#jump").fill("99")
    page.keyboard.press("Enter")
    expect(page.locator("#jump")).to_have_value("11")
    expect(page.locator("#state")).to_have_text("done, 12 pages")
    page.locator("#search").fill("LOWER valley")
    page.keyboard.press("Enter")
    expect(page.locator("#foundtext")).to_have_text("On 12 pages:")
    assert set(page.evaluate("[...CSS.highlights.get('found')].map(String)")) == {"Lower Valley"}
    page.locator("#foundpages button").nth(3).click()
    expect(page.locator("#pagename")).to_have_text("Page 4")
    page.locator("#search").fill("windmill")
    page.keyboard.press("Enter")
    expect(page.locator("#foundtext")).to_have_text("On no page.")


def test_a_page_without_any_text_says_so(site, says, file, tmp_path: Path):
    told = {
        "text": "",
        "picture": None,
        "blocks": [{"block_label": "image", "block_bbox": [10, 10, 90, 90], "block_content": ""}],
    }
    says(json.dumps({**told, "pruned": {}}))
    page = site.open()
    page.set_input_files("#files", file())
    expect(page.locator("#notice")).to_contain_text("No text was found on page 1.")


def test_pages_are_those_of_the_files_that_are_sent_next_and_are_checked_before(site, file):
    typed = {
        " 1，2 ": "1,2", "1、3 – 5": "1,3-5", "１－２ 9-": "1-2,9-", "1-10~,": "1-10~", "": "",
        "x": None, "0": None, "3-1": None, "1;2": None, "-3": None,
    }  # fmt: skip
    page = site.open()
    read = "async typed => (await import('/ui/ranges.js')).rangesOf(typed)"
    assert {words: page.evaluate(read, words) for words in typed} == typed
    page.locator("#options summary").click()
    page.locator("#pages").fill("1；2")
    page.locator("#options summary").click()
    page.set_input_files("#files", file(2))
    expect(page.locator("#problem .about")).to_have_text("1；2")
    expect(page.locator("#problem .says")).to_contain_text("Nothing was sent")
    expect(page.locator("#pages")).to_be_focused()
    expect(page.locator("#documents li")).to_have_count(0)
    page.locator("#pages").fill("2，2")
    for name, said in (("second.pdf", "done, 1 page"), ("both.pdf", "done, 2 pages")):
        page.set_input_files("#files", file(2, name))
        expect(page.locator(f"{row(page, name)} .state")).to_have_text(said)
        expect(page.locator("#pages")).to_have_value("")
    expect(page.locator("#problem")).to_be_hidden()


def test_a_file_above_the_limit_is_refused_before_it_is_sent(site, file):
    page = site.open()
    expect(page.locator("#limits")).to_be_visible()
    sent: list[Route] = []
    page.route(SUBMIT, lambda route: sent.append(route))
    # A file that only says how large it is: none of 256 MiB is made for this.
    page.evaluate("Object.defineProperty(File.prototype, 'size', { get: () => 257 * 2 ** 20 })")
    page.set_input_files("#files", file())
    expect(page.locator("#problem")).to_contain_text("wells.pdf This is more than the service allows.")
    expect(page.locator("#documents li")).to_have_count(0)
    expect(page.locator("#viewer")).to_be_hidden()
    assert not sent
