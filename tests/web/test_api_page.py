# SPDX-License-Identifier: Apache-2.0
"""The API's page at /docs in the system's Chromium: what it shows, and that it asks nobody but the service."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.web.pages import WAIT_MS


def test_the_api_page_shows_the_interfaces_and_authorize_sends_the_key(keyed):
    """The page of a service with keys is shown without one. "Try it out" works under the policy."""
    site, parser = keyed
    page = site.open()
    page.goto(f"{parser.url}/docs")
    paths = page.locator(".opblock-summary-path")
    expect(paths.first).to_be_visible()
    shown = {path.replace("\u200b", "") for path in paths.all_inner_texts()}
    described = page.request.get(f"{parser.url}/openapi.json").json()["paths"]
    assert shown == set(described) and len(shown) >= 12
    parsing = page.locator(".opblock", has=page.locator("[data-path='/layout-parsing']"))
    parsing.locator("button.opblock-summary-control").click()
    parsing.get_by_text("Schema", exact=True).first.click()
    expect(parsing.get_by_text("layoutThreshold").first).to_be_visible()
    usage = page.locator(".opblock", has=page.locator("[data-path='/usage']"))
    usage.locator("button.opblock-summary-control").click()
    usage.get_by_role("button", name="Try it out").click()
    usage.get_by_role("button", name="Execute", exact=True).click()
    answers = usage.locator(".live-responses-table")
    expect(answers.get_by_text("A key is needed").first).to_be_visible()
    page.locator("button.authorize").first.click()
    dialog = page.locator(".dialog-ux")
    dialog.locator("input").first.fill("a-key")
    dialog.get_by_role("button", name=re.compile("^Apply|^Authorize")).first.click()
    dialog.get_by_role("button", name="Close").first.click()
    usage.get_by_role("button", name="Execute", exact=True).click()
    expect(answers.get_by_text('"reader"').first).to_be_visible()
    assert site.foreign == [] and [words for words in site.troubles if "401" not in words] == []


@pytest.mark.parametrize("origin", ["another port", "another name"])
def test_a_foreign_page_in_a_browser_cannot_submit_a_job(browser, service, origin, tmp_path):
    """The browser's own headers, with a form as any page can have one; the page comes from another origin."""
    before = httpx.get(f"{service.url}/capacity", trust_env=False).json()["result"]["jobs"]
    form = (
        f'<form method="post" enctype="multipart/form-data" action="{service.url}/api/v2/ocr/jobs">'
        '<input name="model" value="PaddleOCR-VL"><input name="file" type="file"><button>send</button></form>'
    )
    url = {"another port": "http://127.0.0.1:9/", "another name": "http://evil.example/"}[origin]
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.route(url, lambda route: route.fulfill(content_type="text/html", body=form))
    page.goto(url)
    document = tmp_path / "a.pdf"
    document.write_bytes(b"%PDF-1.4 whatever")
    page.locator("input[type=file]").set_input_files(str(document))
    with page.expect_response(f"{service.url}/api/v2/ocr/jobs") as answered:
        page.get_by_role("button", name="send").click()
    assert answered.value.status == 403 and "PARSER_ALLOWED_ORIGINS" in answered.value.text()
    context.close()
    assert httpx.get(f"{service.url}/capacity", trust_env=False).json()["result"]["jobs"] == before
