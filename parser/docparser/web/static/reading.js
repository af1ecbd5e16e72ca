// SPDX-License-Identifier: Apache-2.0
// The text of a page: as it reads, and as Markdown, which can be copied.

import { say } from "./languages.js";
import { tell } from "./news.js";

const by = (id) => document.getElementById(id);
const COPIED_MS = 1500;

export class Reading {
  #markdown = "";
  #tabs = [by("tab-text"), by("tab-source")];

  constructor() {
    by("copy").onclick = () => this.#copy();
    for (const tab of this.#tabs) {
      tab.onclick = () => this.#choose(tab);
      tab.onkeydown = (event) => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        const other = this.#tabs.find((one) => one !== tab);
        this.#choose(other);
        other.focus();
        event.stopPropagation();
      };
    }
    // What is wider than its place can be scrolled from the keyboard, and only that is a stop.
    new ResizeObserver(() => this.#reach()).observe(by("text"));
  }

  /** `fragment` is the page as elements. */
  show(fragment, markdown) {
    this.#markdown = markdown;
    by("text").replaceChildren(fragment);
    by("source").textContent = markdown;
    if (!by("text").textContent.trim() && !by("text").querySelector("img")) {
      const nothing = Object.assign(document.createElement("p"), { className: "quietly" });
      say(nothing, "sheet.empty");
      by("text").replaceChildren(nothing);
    }
    this.#reach();
  }

  blank() {
    this.#markdown = "";
    by("text").replaceChildren();
    by("source").textContent = "";
  }

  #reach() {
    for (const [selector, key] of [[".tablebox", "content.table"], [".display", "content.formula"], ["pre", "content.code"]]) {
      for (const element of by("text").querySelectorAll(selector)) {
        if (element.scrollWidth > element.clientWidth) {
          element.tabIndex = 0;
          element.setAttribute("role", "group");
          say(element, key, {}, "label");
        } else {
          for (const name of ["tabindex", "role", "data-label", "aria-label"]) element.removeAttribute(name);
        }
      }
    }
  }

  #choose(chosen) {
    for (const tab of this.#tabs) {
      const on = tab === chosen;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      by(tab.getAttribute("aria-controls")).hidden = !on;
    }
  }

  async #copy() {
    const done = await navigator.clipboard.writeText(this.#markdown).then(() => "copy.done", () => "copy.refused");
    say(by("copy"), done);
    tell(done);
    setTimeout(() => say(by("copy"), "copy"), COPIED_MS);
  }
}
