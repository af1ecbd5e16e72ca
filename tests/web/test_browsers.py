# SPDX-License-Identifier: Apache-2.0
"""The page works in the oldest browsers that README.md names: Chromium 109 stands for them."""

from __future__ import annotations

import re

from playwright.sync_api import Route, expect

from tests.support.paths import ROOT

STATIC = ROOT / "parser/docparser/web/static"
# What later browsers have.
LATER = [
    "Array.prototype.toReversed", "Array.prototype.toSorted", "Array.prototype.toSpliced", "Array.prototype.with",
    "Array.fromAsync", "Object.groupBy", "Map.groupBy", "Promise.withResolvers", "Promise.try", "AbortSignal.any",
    "URL.canParse", "Iterator.prototype.map", "Iterator.prototype.filter", "Iterator.prototype.toArray",
    "Set.prototype.union", "Set.prototype.difference", "Element.prototype.checkVisibility",
]  # fmt: skip
CALLED = re.compile(
    r"\.(toReversed|toSorted|toSpliced|with|fromAsync|groupBy|withResolvers|canParse|checkVisibility)\("
    r"|Promise\.try|AbortSignal\.any|(keys|values|entries)\(\)\.\w"
)
FUNCTIONS = re.compile(r"\b(light-dark|color-mix)(?=\()")  # of style sheets, which need a fallback


def test_nothing_that_the_page_calls_is_newer():
    assert [path.name for path in STATIC.rglob("*js") if CALLED.search(path.read_text())] == []


def test_the_page_works_without_what_is_newer(site, file):
    def without(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=FUNCTIONS.sub(r"later-\1", answer.text()))

    page = site.open(scheme="dark")
    page.context.add_init_script("\n".join(f"delete {name};" for name in LATER))
    page.route("**/ui/*.css", without)
    site.reload(page)
    page.set_input_files("#files", [file(1, "b.pdf"), file(1, "a.pdf")])
    expect(page.locator('li[data-stage="done"]')).to_have_count(2)
    for order, first in (("newest", "a.pdf"), ("oldest", "b.pdf"), ("name", "a.pdf")):
        page.locator("#order").select_option(order)
        expect(page.locator("#documents .file").first).to_have_text(first)
    expect(page.locator("#theme")).to_be_hidden()
    expect(page.locator("body")).to_have_css("background-color", "rgb(246, 245, 242)")
    expect(page.locator(".row[aria-current] .box").first).to_have_css("border-top-style", "solid")
    colours = dict(re.findall(r"^  (--[\w-]+): light-dark\((#\w+),", (STATIC / "app.css").read_text(), re.M))
    style = "names => names.map(name => getComputedStyle(document.documentElement).getPropertyValue(name))"
    assert page.evaluate(style, list(colours)) == list(colours.values())
