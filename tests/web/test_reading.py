# SPDX-License-Identifier: Apache-2.0
"""A document is read from end to end: its pages as they came, one below the other, and turned where they lie wrong."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.samples import pdf_bytes
from tests.web.pages import page_of

PAGES = 12
WIDE, HIGH = (600, 250), (400, 600)  # points


def read_now(page: Page) -> str:
    return page.locator("#pagename").inner_text()


def wait_until_on_top(page: Page) -> None:
    """The page that is read begins at the upper edge of all pages, once the pictures around it have their size: a row
    that got another height is told of in the next frame."""
    page.evaluate("() => Promise.allSettled([...document.querySelectorAll('#sheets img')].map((one) => one.decode()))")
    page.wait_for_function(
        """() => {
            const [row, sheets] = [".row[aria-current]", "#sheets"].map((one) => document.querySelector(one));
            return Math.abs(row.getBoundingClientRect().top - sheets.getBoundingClientRect().top) < 2;
        }"""
    )


def test_pages_are_there_before_they_are_read_and_nothing_moves_when_they_are(site, vlm, file):
    page = site.open()
    first, last = (f'.row[data-page="{number}"]' for number in (1, PAGES))
    with vlm.holding():
        page.set_input_files("#files", file(PAGES))
        original = page.locator(f"{first} .sheetpage > img")
        expect(original).to_have_attribute("alt", "Page 1 as it came")
        assert original.evaluate("image => image.naturalWidth") > 100
        expect(page.locator(".row")).to_have_count(PAGES)
        page.locator("#sheets").hover()
        page.mouse.wheel(0, 1_000_000)
        expect(page.locator("#pagename")).to_have_text(f"Page {PAGES}")
        expect(page.locator('#strip [aria-current="page"]')).to_have_text(str(PAGES))
        expect(page.locator(f"{last} .sheetpage > img")).to_have_attribute("alt", f"Page {PAGES} as it came")
        expect(page.locator(f"{first} .sheetpage")).to_be_empty()
        page.locator("#jump").fill("6")
        page.keyboard.press("Enter")
        sixth = page.locator('.row[data-page="6"]')
        expect(sixth.locator(".sheetpage > img")).to_be_visible()
        before = sixth.bounding_box()
    expect(page.locator("#state")).to_have_text(f"done, {PAGES} pages")
    expect(sixth.locator(".box").first).to_be_visible()
    expect(sixth.locator("table")).to_contain_text("0.048")
    assert read_now(page) == "Page 6"
    after = sixth.bounding_box()
    assert before and after and abs(after["y"] - before["y"]) < 2
    page.mouse.wheel(0, 700)
    expect(page.locator("#pagename")).to_have_text("Page 7")


def test_a_page_that_is_gone_to_stays_on_the_screen(site, vlm, tmp_path):
    """Pages above it take their height after it was gone to, and none is as high as the first."""
    book = tmp_path / "book.pdf"
    book.write_bytes(pdf_bytes(*(HIGH if number % 3 == 1 else WIDE for number in range(1, 21))))
    page = site.open()
    with vlm.holding():
        page.set_input_files("#files", str(book))
        expect(page.locator(".row")).to_have_count(20)
        for number in (16, 4, 10):
            page.locator("#jump").fill(str(number))
            page.keyboard.press("Enter")
            for near in (number - 1, number, number + 1):
                expect(page.locator(f'.row[data-page="{near}"] .sheetpage > img')).to_be_attached()
            assert read_now(page) == f"Page {number}"
            wait_until_on_top(page)
        # A page above grows before the browser has told of the scroll to this one.
        page.evaluate(
            """() => {
                const above = document.querySelector(".row[aria-current]").previousElementSibling;
                above.style.minHeight = `${above.offsetHeight + 900}px`;
                document.querySelector("#sheets").dispatchEvent(new Event("scroll"));
            }"""
        )
        wait_until_on_top(page)
        assert read_now(page) == "Page 10"
        # All becomes too short for where it was, and a script asks for a size before the browser draws.
        page.evaluate(
            """async () => {
                const [sheets, rows] = [document.querySelector("#sheets"), document.querySelectorAll(".row")];
                for (const { style } of rows) Object.assign(style, { display: "none" });
                void sheets.scrollTop;
                sheets.dispatchEvent(new Event("scroll"));
                await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
                for (const { style } of rows) style.display = "";
            }"""
        )
        assert read_now(page) == "Page 10"
        wait_until_on_top(page)
    expect(page.locator("#state")).to_have_text("done, 20 pages")
    expect(page.locator("#pagename")).to_have_text("Page 10")


def test_a_page_is_turned_and_read_again(site, vlm, file):
    page = site.open()
    page.locator(".options summary").click()
    page.locator("#pages").fill("2")  # of the document, and not of the picture that is sent after it
    page.set_input_files("#files", file(3))
    expect(page.locator(".box").first).to_be_visible()
    image = page.locator(".row[aria-current] .sheetpage > img")
    size = "image => image.decode().then(() => [image.naturalWidth, image.naturalHeight])"
    upright = image.evaluate(size)
    with vlm.holding():
        page.locator("#turn summary").click()
        page.locator('[data-turn="right"]').click()
        expect(page.locator("#name")).to_have_text("wells_2_turned.jpg")
        expect(image).to_have_attribute("alt", "Page 1 as it came")
        assert image.evaluate(size) == upright[::-1]
    expect(page.locator("#documents li")).to_have_count(2)
    expect(page.locator("#state")).to_have_text("done, 1 page")


def test_pages_have_their_own_texts_until_they_are_joined(site, vlm, file):
    page = site.open()
    page.locator(".options summary").click()
    page.locator("#join").check()
    first = page.locator('.row[data-page="1"]')
    with vlm.holding("2"):
        page.set_input_files("#files", file(2))
        expect(first.locator(".prose tr")).to_have_count(2)
        expect(first.locator(".box").first).to_be_visible()
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    expect(first.locator(".prose tr")).to_have_count(4)
    expect(page.locator('.row[data-page="2"] .prose tr')).to_have_count(0)
    page.locator("#search").fill("mill")
    page.keyboard.press("Enter")
    expect(page.locator("#foundtext")).to_have_text("On 1 page:")


def test_what_is_doubtful_or_failed_is_listed_and_led_to(site, service, says, file):
    says(page_of(doubtful={0: 0.4199, 2: None}))
    (service.log.parent / "refuse").write_text("2")
    page = site.open()
    page.set_input_files("#files", file(3))
    expect(page.locator("#notice")).to_contain_text("1 page could not be parsed.")
    page.locator("#doubts").click()
    expect(page.locator("#foundtext")).to_have_text("5 places to look at:")
    places = page.locator("#foundpages button")
    expect(places.nth(0)).to_have_text("Page 1Wells of the Lower Valley")
    expect(places.nth(2)).to_contain_text("Page 2")
    places.nth(4).click()
    expect(page.locator("#pagename")).to_have_text("Page 3")
    expect(page.locator('.row[data-page="3"] .box[data-index="2"]')).to_be_focused()
    page.locator("#doubts").click()
    expect(page.locator("#found")).to_be_hidden()


def test_words_that_are_sought_or_selected_are_marked_on_the_picture(site, says, file):
    words = [
        {"text": "Wells", "bbox": [10, 8, 30, 20], "start": 0, "end": 5},
        {"text": "of", "bbox": [32, 8, 38, 20], "start": 6, "end": 8},
        {"text": "the", "bbox": [40, 8, 50, 20], "start": 9, "end": 12},
        {"text": "Lower", "bbox": [52, 8, 68, 20], "start": 13, "end": 18},
        {"text": "Valley", "bbox": [70, 8, 90, 20], "start": 19, "end": 25},
    ]
    said = [{"block_id": 0, "source": "ink", "words": words}]
    says(page_of(told={index: {"block_id": index} for index in range(4)}, beside={"places": said}))
    page = site.open()
    page.set_input_files("#files", file(2))
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    first = page.locator('.row[data-page="1"]')
    expect(first.locator(".box").first).to_be_visible()
    marks = first.locator(".sheetpage .place")
    expect(marks).to_have_count(0)
    page.locator("#search").fill("LOWER valley")
    page.keyboard.press("Enter")
    expect(marks).to_have_count(2)
    picture, mark = page.evaluate(  # both at once: the page may still be scrolling to what was found, or draw it again
        """() => ["img", ".place"].map(one => document.querySelector(`.row[data-page="1"] .sheetpage > ${one}`))
            .map(one => one.getBoundingClientRect().toJSON())"""
    )
    assert abs((mark["x"] - picture["x"]) / picture["width"] - 0.52) < 0.02
    assert abs((mark["y"] - picture["y"]) / picture["height"] - 8 / 140) < 0.02
    page.locator("#search").fill("")
    page.keyboard.press("Enter")
    expect(marks).to_have_count(0)
    first.locator('.prose [data-block="0"]').select_text()
    expect(marks).to_have_count(5)
    page.evaluate("getSelection().removeAllRanges()")
    expect(marks).to_have_count(0)


def test_signs_that_a_table_escapes_and_a_text_does_not_are_found(site, says, file):
    table = "<table><tr><td>R&amp;D budget</td><td>Customer&#x27;s share</td></tr></table>"
    says(page_of(told={1: {"block_content": "for x < 3 and y > 2"}, 2: {"block_content": table}}))
    page = site.open()
    page.set_input_files("#files", file(2))
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    for words in ("r&d", "customer's", "x < 3 and y"):
        page.locator("#search").fill(words)
        page.keyboard.press("Enter")
        expect(page.locator("#foundtext")).to_have_text("On 2 pages:")


def test_letters_that_are_longer_in_lower_case_are_found_at_their_places(site, says, file):
    says(page_of("İSTANBUL Belediyesi"))
    page = site.open()
    page.set_input_files("#files", file(5))
    expect(page.locator('.row[data-page="1"] .prose')).to_have_text("İSTANBUL Belediyesi")
    expect(page.locator("#state")).to_have_text("done, 5 pages")
    for words, found in (("belediyesi", "Belediyesi"), ("istanbul b", "İSTANBUL B")):
        page.locator("#search").fill(words)
        page.keyboard.press("Enter")
        expect(page.locator("#foundtext")).to_have_text("On 5 pages:")
        assert set(page.evaluate("[...CSS.highlights.get('found')].map(String)")) == {found}
    page.locator("#foundpages button").last.click()
    expect(page.locator('.row[data-page="5"] .prose')).to_have_text("İSTANBUL Belediyesi")
