# SPDX-License-Identifier: Apache-2.0
"""The web page in the system's Chromium, served by a real service with simulated page work (tests/jobs)."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, Request, expect, sync_playwright

from tests.support.jobs import Start
from tests.support.samples import blank_pages as pdf
from tests.web.pages import WAIT_MS, page_of

# The shell draws and runs pages as the whole browser does, which takes half as much processor time again.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None)
# Chromium cuts all connections when the machine gets or loses an address, as when another test starts a container.
NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
LOADS = 10
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def starter(tmp_path_factory):
    starter = Start(tmp_path_factory.mktemp("service"))
    yield starter
    starter.end()


@pytest.fixture(scope="session")
def vlm(starter):
    return starter.vlm(0.05)


@pytest.fixture(scope="session")
def service(starter, vlm):
    return starter.parser(PARSER_PAGES_IN_FLIGHT="1").wait()


@pytest.fixture(scope="session")
def keyed_service(starter, vlm):
    entry = f"sha256:{hashlib.sha256(b'a-key').hexdigest()} name=reader"
    return starter.parser(PARSER_API_KEYS=entry).wait()


@pytest.fixture
def keyed(keyed_service, browser):
    """A service that asks for the key `a-key`, and a site of it. Troubles are for the test to judge."""
    yield Site(browser, keyed_service.url), keyed_service
    for context in browser.contexts:
        context.close()


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
    assert CHROMIUM, "Chromium is missing: apt-get install chromium-headless-shell"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-features=PreloadTopChromeWebUI"]
        )
        yield browser
        browser.close()


class Site:
    """Opens pages; ``troubles`` are what the browser complained about, ``foreign`` the requests to other hosts."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self._url = browser, url
        self.troubles: list[str] = []
        self.foreign: list[str] = []
        self._cut = 0  # requests that a change of the machine's network has cut

    def open(
        self,
        width: int = 1280,
        height: int = 860,
        scheme: Literal["light", "dark"] = "light",
        language: str = "en-GB",
        motion: Literal["reduce", "no-preference"] = "no-preference",
    ) -> Page:
        context = self._browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            locale=language,
            timezone_id="UTC",
            reduced_motion=motion,
        )
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("dialog", self._note_dialog)
        page.on("request", lambda request: self._note(request.url))
        page.on("requestfailed", self._note_failure)
        self._load(lambda: page.goto(self._url + "/"))
        return page

    def reload(self, page: Page) -> None:
        self._load(page.reload)

    def _load(self, load: Callable[[], object]) -> None:
        """As a person does, load a page again when something of it did not come."""
        for _ in range(LOADS):
            before = self._cut
            try:
                load()
            except Error as error:
                if NETWORK_CHANGED not in str(error):
                    raise
            else:
                if self._cut == before:
                    return
        raise AssertionError(f"the machine's network changed during each of {LOADS} loads of the page")

    def forgive(self, *words: str) -> None:
        """Takes out the troubles that name one of ``words``: what the test itself has caused."""
        self.troubles = [trouble for trouble in self.troubles if not any(one in trouble for one in words)]

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and NETWORK_CHANGED not in message.text:
            self.troubles.append(message.text)

    def _note_failure(self, request: Request) -> None:
        self._cut += NETWORK_CHANGED in (request.failure or "")

    def _note_dialog(self, dialog: Dialog) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, url: str) -> None:
        if not url.startswith((self._url, "data:", "blob:")):
            self.foreign.append(url)


@pytest.fixture
def site(browser, service, says):
    service.wait_until_idle()
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
