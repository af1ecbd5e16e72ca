# SPDX-License-Identifier: Apache-2.0
"""What axe finds on a page as it is now, and the way of the Tab key over it."""

from __future__ import annotations

from importlib import resources

from playwright.sync_api import Page

AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text()
# Every rule that is on by default, best practices too, and two of WCAG that are not.
RUN = """async (only) => {
    const rules = { "target-size": { enabled: true }, "label-content-name-mismatch": { enabled: true } };
    const context = { exclude: [["#documents li:nth-child(n + 20)"]] }; // the first rows stand for hundreds
    const chosen = only ? { runOnly: [only] } : { rules };
    const { violations } = await axe.run(context, { ...chosen, resultTypes: ["violations"] });
    return violations.flatMap(({ id, impact, nodes }) => nodes.map(({ target }) => `${impact}: ${id} at ${target}`));
}"""
# What has the focus, and whether one sees that: an outline around it, or around the label that stands for it.
FOCUSED = """() => {
    const focused = document.activeElement;
    const shown = focused.id === "files" ? focused.labels[0] : focused;
    const { outlineStyle, outlineWidth } = getComputedStyle(shown);
    const place = shown.getBoundingClientRect();
    const seen = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && place.width > 0 && place.height > 0;
    return { name: focused.id || focused.className || focused.outerHTML.slice(0, 80), seen };
}"""


def violations(page: Page, only: str | None = None) -> list[str]:
    """One line for each element that breaks a rule of axe, of whatever impact; ``only``: of this rule."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE)
    return page.evaluate(RUN, only)


def tab_to(page: Page, selector: str, most: int = 60) -> None:
    """Press Tab until what ``selector`` names has the focus; each stop on the way shows that it has it."""
    passed = []
    for _ in range(most):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        assert focused["seen"], f"{focused['name']} has the focus, and nothing shows it"
        passed.append(focused["name"])
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not lead to {selector}, but over {passed}")
