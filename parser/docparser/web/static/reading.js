// SPDX-License-Identifier: Apache-2.0
// The text of a page: as it reads, and as Markdown. The copy of the first holds tables as such, for office programs.

import { say } from "./languages.js";
import { tell } from "./news.js";

const by = (id) => document.getElementById(id);
const COPIED_MS = 1500;
const KEPT = new Set(["colspan", "rowspan", "href", "value"]); // attributes of what is copied

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

  #copy() {
    const rich = this.#tabs[0].getAttribute("aria-selected") === "true" && this.#markdown;
    const texts = { "text/plain": this.#markdown, ...(rich && { "text/html": plainly(by("text")) }) };
    const done = put(texts) ? "copy.done" : "copy.refused";
    say(by("copy"), done);
    tell(done);
    setTimeout(() => say(by("copy"), "copy"), COPIED_MS);
  }
}

/** Puts texts by their types on the clipboard; works without https too, where `navigator.clipboard` is not there. */
function put(texts) {
  let done = false;
  const fill = (event) => {
    for (const [type, text] of Object.entries(texts)) event.clipboardData.setData(type, text);
    event.preventDefault();
    event.stopImmediatePropagation();
    done = true;
  };
  const selection = getSelection();
  const before = selection.rangeCount ? selection.getRangeAt(0) : null;
  selection.selectAllChildren(by("name")); // where nothing is selected, browsers copy nothing
  document.addEventListener("copy", fill, { capture: true, once: true });
  document.execCommand("copy");
  document.removeEventListener("copy", fill, { capture: true });
  selection.removeAllRanges();
  if (before) selection.addRange(before);
  return done;
}

/** The HTML of what is read, with borders of tables and without what only this page knows. */
function plainly(article) {
  const copy = article.cloneNode(true);
  for (const element of copy.querySelectorAll(".doubt, img")) element.remove(); // pictures are at addresses that end
  for (const formula of copy.querySelectorAll(".katex")) {
    formula.replaceWith(formula.querySelector("annotation")?.textContent ?? formula.textContent);
  }
  for (const element of copy.querySelectorAll("*")) {
    for (const { name } of [...element.attributes]) if (!KEPT.has(name)) element.removeAttribute(name);
    if (element.localName === "table") element.setAttribute("border", "1");
  }
  return copy.innerHTML;
}
