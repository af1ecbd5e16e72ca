# SPDX-License-Identifier: Apache-2.0
"""The web page in the system's Chromium, served by a real service with simulated page work (tests/jobs)."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "jobs")]

from documents import pdf  # noqa: E402
from processes import Start  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WAIT_MS = 120_000  # busy machines draw slowly
expect.set_options(timeout=WAIT_MS)

# What the simulated VLM reads on each page: (label, box, content) in a page of 100 x 140.
BLOCKS = [
    ("doc_title", [10, 8, 90, 20], "Wells of the Lower Valley"),
    ("text", [10, 24, 90, 50], "The mean is $ \\bar{c} = \\frac{1}{n}\\sum c_i $ and the fee $5 or $10."),
    (
        "table",
        [10, 54, 90, 90],
        "<table><tr><td>Well</td><td>March</td></tr><tr><td>Mill</td><td>0.048</td></tr></table>",
    ),
    ("image", [10, 94, 50, 130], ""),
]
TEXT = '# Wells of the Lower Valley\n\n{}\n\n{}\n\n<div style="text-align: center;"><img src="imgs/a.jpg" alt="Well"></div>'


def page_of(text: str | None = None) -> str:
    blocks = [{"block_label": label, "block_bbox": box, "block_content": content} for label, box, content in BLOCKS]
    return json.dumps({"text": text or TEXT.format(BLOCKS[1][2], BLOCKS[2][2]), "blocks": blocks})


@pytest.fixture(scope="session")
def starter(tmp_path_factory):
    starter = Start(tmp_path_factory.mktemp("service"))
    yield starter
    starter.end()


@pytest.fixture(scope="session")
def vlm(starter):
    return starter.vlm(0.2)


@pytest.fixture(scope="session")
def service(starter, vlm):
    return starter.parser(PARSER_PAGES_IN_FLIGHT="1").wait()


@pytest.fixture
def says(service):
    """``says(text)``: what the VLM reads from now on, as a page's JSON."""
    path = service.log.parent / "say"
    path.write_text(page_of())
    yield path.write_text
    path.unlink()
    (service.log.parent / "refuse").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def browser():
    assert CHROMIUM, "Chromium is missing: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Site:
    """Opens pages; ``troubles`` are what the browser complained about, ``foreign`` the requests to other hosts."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self._url = browser, url
        self.troubles: list[str] = []
        self.foreign: list[str] = []

    def open(self, width: int = 1280, height: int = 860, scheme: str = "light") -> Page:
        context = self._browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and self.troubles.append(message.text))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("dialog", lambda dialog: (self.troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._note(request.url))
        page.goto(self._url + "/")
        return page

    def _note(self, url: str) -> None:
        if not url.startswith((self._url, "data:", "blob:")):
            self.foreign.append(url)


@pytest.fixture
def site(browser, service, says):
    site = Site(browser, service.url)
    yield site
    for context in browser.contexts:
        context.close()
    assert site.troubles == [] and site.foreign == []


@pytest.fixture
def file(tmp_path: Path):
    """``file(pages, name)``: a PDF."""

    def make(pages: int = 1, name: str = "wells.pdf") -> str:
        path = tmp_path / name
        path.write_bytes(pdf(pages))
        return str(path)

    return make
