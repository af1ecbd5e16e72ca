# SPDX-License-Identifier: Apache-2.0
"""The page in English and Chinese: no text is missing in one of them, and none stands outside of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.paths import ROOT
from tests.web.by_service import by_service
from tests.web.pages import page_of

STATIC = ROOT / "parser/docparser/web/static"
TEXTS = """async () => {
    const of = async (name) => (await import(`/ui/languages/${name}.js`)).default;
    return { en: await of("en"), zh: await of("zh") };
}"""
FORMS = "name => new Intl.PluralRules(name).resolvedOptions().pluralCategories"
QUEUE = "The queue is full (20000 pages)."
FULL = "服务暂时不再接收文件。1 个文件在等待，有空间后会自动发送。"
AWAY = "服务没有应答。1 个文件在等待，服务恢复后会自动发送。"
LARGE = "The file is larger than 256 MiB (PARSER_MAX_BODY_MIB)."
# What the service can say by a code or by a word of a list.
CODES = """
import io
from unittest.mock import Mock
from docparser.contract.schemas import LABELS
from docparser.convert.names import FORMATS
from docparser import errors
from docparser.errors import InvalidJob, kind_of
from docparser.http.errors import STATUS
from docparser.jobs.storage.states import StepState
from docparser.jobs.submission import check_submission
from docparser.opening import CUT_SHORT
from docparser.opening.pdfs import ATTACHMENTS
from docparser.page.notes import BLANK, DARK, LONG, NONSENSE, SIDEWAYS, UNREAD
from docparser.parsing.result import VLM_FAILED
from file_types import IN_ZIP, OTHERS
answer = {
    "error": sorted({*map(str, STATUS.values()), "401", "403", "405", "421"}),
    "failed": sorted({kind_of(name) for name in vars(errors)}),
    "noted": [*VLM_FAILED, "refused", "repetition", "length"],
    "note": [ATTACHMENTS, BLANK, CUT_SHORT, DARK, LONG, NONSENSE, SIDEWAYS, UNREAD, "other"],
    "page": list(map(str, StepState)),
    "label": list(LABELS),
    "download": list(FORMATS),
    "refused": [f"file: {what} is not read here; {cure}" for *_, what, cure in (*OTHERS, *IN_ZIP)],
}
for head in (b"", b"words"):
    try:
        check_submission({"model": "PaddleOCR-VL"}, io.BytesIO(head), file_name="", idempotency_key=None, served=Mock())
    except InvalidJob as exc:
        answer["refused"].append(str(exc))
"""
# Puts the texts of a language into brackets.
BRACKETS = """
const mark = (entry) => typeof entry === "string" ? `⟦${entry}⟧`
    : Object.fromEntries(Object.entries(entry).map(([form, words]) => [form, mark(words)]));
export default Object.fromEntries(Object.entries(texts).map(([key, entry]) => [key, mark(entry)]));
"""
# Every text and every attribute that is shown or read out, but for what users and documents have named, and the
# service's own words.
OUTSIDE = """() => {
    const own = ".prose, .source, #name, .file, .folder, .snippet, .about, .words, noscript, script, style";
    const found = [];
    const look = (words, where) => {
        const rest = words.replace(/⟦[^⟦⟧]*(⟦[^⟦⟧]*⟧[^⟦⟧]*)*⟧/g, "");
        if (/\\p{L}/u.test(rest)) found.push(`${where}: ${words.trim()}`);
    };
    const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        if (!parent.closest(own)) look(walker.currentNode.data, parent.id || parent.className || parent.localName);
    }
    for (const element of document.querySelectorAll("*")) {
        if (element.closest(own)) continue;
        for (const name of ["aria-label", "title", "placeholder", "alt", "aria-description"]) {
            look(element.getAttribute(name) ?? "", `${element.id || element.localName} ${name}`);
        }
    }
    return found;
}"""


@pytest.fixture
def texts(site) -> dict[str, dict[str, Any]]:
    return site.open().evaluate(TEXTS)


def forms(entry: str | dict[str, str]) -> list[str]:
    return [entry] if isinstance(entry, str) else list(entry.values())


def test_both_languages_have_the_same_texts(site, texts):
    english, chinese = texts["en"], texts["zh"]
    assert english.keys() == chinese.keys()
    for key in english:
        values = {name: set(re.findall(r"\{(\w+)\}", " ".join(forms(of[key])))) for name, of in texts.items()}
        assert values["en"] == values["zh"], key
        assert isinstance(english[key], str) == isinstance(chinese[key], str), key
    page = site.open()
    for name, of in texts.items():
        needed = set(page.evaluate(FORMS, name))
        for key, entry in of.items():
            assert all(words.strip() for words in forms(entry)), key
            assert isinstance(entry, str) or entry.keys() == needed, f"{name} {key}"


def test_every_text_is_used_and_every_use_has_a_text(texts):
    code = "\n".join(path.read_text() for path in STATIC.glob("*.js") if path.name != "api.js")  # it says nothing
    page = (STATIC / "index.html").read_text()
    declared = set(re.findall(r'data-(?:text|label|hint|alt|title)="([^"]+)"', page))
    families = set(re.findall(r"`([a-z]+)\.\$\{", code)) | set(re.findall(r'ofKind\("([a-z]+)"', code))
    assert families == {"theme", "error", "failed", "noted", "note", "refused", "page", "label", "download", "turn"}
    used = declared | set(re.findall(r'"([a-z]+(?:\.[a-z0-9_]+)*)"', code))
    assert declared <= texts["en"].keys()
    assert [key for key in texts["en"] if key not in used and key.split(".")[0] not in families] == []


def test_what_the_service_says_by_a_code_has_a_text(site, texts):
    codes = by_service(CODES)
    for prefix, names in codes.items():
        if prefix == "refused":  # words, not codes
            continue
        assert [name for name in names if f"{prefix}.{name}" not in texts["en"]] == [], prefix
    told = site.open().evaluate(
        """async (words) => {
            const { refusal } = await import("/ui/failures.js");
            return words.map((message) => refusal({ status: 400, message }).says[0]);
        }""",
        codes["refused"],
    )
    assert not {key for key in told if key not in texts["en"] or not key.startswith("refused.")}
    assert {key for key in texts["en"] if key.startswith("refused.")} == set(told), "each is told of something"
    offered = site.open().evaluate("async () => (await import('/ui/downloads.js')).FORMATS")
    assert sorted(offered) == sorted(codes["download"])


def in_brackets(route: Route) -> None:
    source = (STATIC / "languages" / route.request.url.rsplit("/", 1)[1]).read_text()
    route.fulfill(body=source.replace("export default", "const texts =") + BRACKETS, content_type="text/javascript")


def check_nothing_is_outside(page: Page) -> None:
    assert page.evaluate(OUTSIDE) == []


def test_no_text_stands_outside_of_the_languages(site, service, vlm, file, tmp_path):
    refuse, notes = service.log.parent / "refuse", tmp_path / "notes.txt"
    refuse.write_text("2")
    notes.write_text("no document")
    page = site.open()
    page.route("**/ui/languages/*.js", in_brackets)
    site.reload(page)
    expect(page).to_have_title("⟦Document parser⟧")
    check_nothing_is_outside(page)
    with vlm.holding():
        page.set_input_files("#files", file(2))
        expect(page.locator(".row[aria-current] .prose p")).to_have_text("⟦This page is being read …⟧")
        check_nothing_is_outside(page)
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    expect(page.locator("#notice .says")).to_have_text("⟦⟦1⟧ page could not be parsed.⟧".replace("⟦1⟧", "1"))
    page.locator("#copy").click()
    check_nothing_is_outside(page)
    page.locator("#next").click()
    expect(page.locator(".row[aria-current] .prose .says")).to_have_text("⟦The service failed on this page.⟧")
    page.set_input_files("#files", str(notes))
    expect(page.locator("#problem .says")).to_have_text(
        "⟦This file is neither a PDF nor a picture that is known here.⟧"
    )
    check_nothing_is_outside(page)
    page.locator("#language").click()
    expect(page.locator("#problem .says")).to_have_text("⟦此文件既不是 PDF，也不是支持的图片。⟧")
    check_nothing_is_outside(page)
    site.forgive("400")


@pytest.mark.parametrize(
    ("language", "tag", "title"),
    [
        ("zh-CN", "zh-Hans", "文档解析"),
        ("zh-TW", "zh-Hans", "文档解析"),
        ("fr-FR", "en", "Document parser"),
    ],
)
def test_the_language_is_the_browsers(site, language, tag, title):
    page = site.open(language=language)
    expect(page).to_have_title(title)
    expect(page.locator("html")).to_have_attribute("lang", tag)
    expect(page.locator("h1")).to_have_text(title)


def test_another_language_is_chosen_in_place_and_kept(site, file):
    page = site.open()
    page.set_input_files("#files", file(2))
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    expect(page.locator("#state")).to_have_text("done, 2 pages")
    page.locator("#next").click()
    expect(page.locator("#pagename")).to_have_text("Page 2")
    expect(page.locator("#language")).to_have_attribute("lang", "zh-Hans")
    page.locator("#language").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(page.locator("#pagename")).to_have_text("第 2 页")  # the page on the screen stays
    expect(page.locator("#state")).to_have_text("已完成，2 页")
    expect(page.locator("#readers")).to_have_text("由 PaddleOCR-VL-0.9B 识别")
    expect(page.locator(".row[aria-current] .box").first).to_have_attribute("aria-label", "文档标题，第 1 块")
    expect(page.locator("#strip button").first).to_have_attribute("aria-label", "第 1 页，已完成")
    site.reload(page)
    expect(page).to_have_title("文档解析")
    expect(page.locator(".row[aria-current] .prose table")).to_be_visible()
    page.locator("#language").click()
    expect(page).to_have_title("Document parser")
    expect(page.locator("#language")).to_have_text("中文")


@pytest.mark.parametrize(
    ("language", "moment"), [("en-GB", "9 Mar, 17:05"), ("en-US", "Mar 9, 5:05 PM"), ("zh-CN", "3月9日 17:05")]
)
def test_dates_and_numbers_are_written_as_the_browser_writes_them(site, language, moment):
    page = site.open(language=language)
    written = page.evaluate(
        """async () => {
            const { text } = await import("/ui/languages.js");
            const moment = new Date(Date.UTC(2026, 2, 9, 17, 5));
            return [text("list.sent", { moment }), text("time.seconds", { count: 12345 })];
        }"""
    )
    assert written[0].replace("\u202f", " ") == moment and written[1].startswith("12,345")


@pytest.mark.parametrize(
    ("status", "body", "place", "says", "words"),
    [
        (413, {"code": 413, "msg": LARGE}, "#problem", "超出服务允许的限度。", LARGE),
        (429, {"code": 429, "msg": QUEUE}, "#held", FULL, QUEUE),
        (502, "<html>Bad Gateway</html>", "#held", AWAY, None),
        (None, None, "#held", AWAY, None),
    ],
)
def test_an_error_is_told_in_the_pages_language_with_the_services_words(site, file, status, body, place, says, words):
    def refuse(route: Route) -> None:
        if route.request.method != "POST":
            route.continue_()
        elif status is None:
            route.abort()
        else:
            route.fulfill(status=status, body=body if isinstance(body, str) else json.dumps(body))

    page = site.open(language="zh-CN")
    page.route("**/api/v2/ocr/jobs", refuse)
    page.set_input_files("#files", file())
    expect(page.locator(f"{place} .says")).to_have_text(says)
    if place == "#problem":
        expect(page.locator("#problem .about")).to_have_text("wells.pdf")
    if words:
        expect(page.locator(f"{place} .words")).to_have_text(words)
        expect(page.locator(f"{place} .words")).to_have_attribute("lang", "en")
    else:
        expect(page.locator(f"{place} .words")).to_have_count(0)
    site.forgive("Failed to load resource")


def test_the_model_and_the_demos_banner(site, says, file):
    """The simulated VLM says that its weights lie in a folder `demo`."""
    demo = True

    def answer(route: Route) -> None:
        page = route.fetch().json()
        page["result"]["docparser"]["models"]["vlm"] |= {"demo": demo, "general": not demo}
        route.fulfill(json=page)

    says(page_of())
    page = site.open()
    page.set_input_files("#files", file(2))
    expect(page.locator("#demo")).to_contain_text("Demo weights")
    expect(page.locator("#general")).to_be_hidden()
    expect(page.locator("#readers")).to_have_text("Read by PaddleOCR-VL-0.9B")
    demo = False
    page.route("**/pages/2", answer)
    expect(page.locator("#strip button")).to_have_count(2)
    page.locator("#next").click()
    expect(page.locator(".row[aria-current] .sheetpage img")).to_have_attribute("alt", "Page 2")
    expect(page.locator("#demo")).to_be_hidden()
    expect(page.locator("#general")).to_contain_text("A general model read this page")
