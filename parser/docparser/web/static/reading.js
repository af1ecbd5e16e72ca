// SPDX-License-Identifier: Apache-2.0
// The text of pages: as it reads, and as Markdown. The copy of the first holds tables as such, for office programs.

import { say } from "./languages.js";
import { tell } from "./news.js";

const by = (id) => document.getElementById(id);
const COPIED_MS = 1500;
const KEPT = new Set(["colspan", "rowspan", "href", "value"]); // attributes of what is copied
// What convert/workbook.py writes as a number: it shows all others as they were printed, and so does a copy.
const NUMBER = /^(?!-[0.,]*$)-?(0|[1-9][0-9]*|[1-9][0-9]{0,2}(,[0-9]{3})+)(\.[0-9]+)?$/;
const MAX_DIGITS = 15;
const AS_TEXT = "\ue002text"; // the page's policy refuses inline styles, so one is written for this
const FORMS = "[data-form][aria-pressed]";

export class Reading {
  #row;
  // What is wider than its place can be scrolled from the keyboard, and only that is a stop.
  #sizes = new ResizeObserver((changed) => changed.forEach(({ target }) => reach(target)));

  /** `row()`: the page that is read. */
  constructor(row) {
    this.#row = row;
    by("copy").onclick = () => this.#copy();
    for (const button of document.querySelectorAll(FORMS)) button.onclick = () => this.#choose(button.dataset.form);
  }

  /** `fragment` is the page as elements. */
  show(row, fragment, markdown) {
    const [text, source] = row.querySelectorAll(".prose, .source");
    text.replaceChildren(fragment);
    source.textContent = markdown;
    if (!text.textContent.trim() && !text.querySelector("img")) this.#say(text, "sheet.empty");
    reach(text);
    this.#sizes.observe(text);
  }

  /** Shows words in the place of a text; none without a `key`. */
  blank(row, key) {
    const [text, source] = row.querySelectorAll(".prose, .source");
    source.replaceChildren();
    if (key) this.#say(text, key);
    else text.replaceChildren();
  }

  #say(text, key) {
    const words = Object.assign(document.createElement("p"), { className: "quietly" });
    say(words, key);
    text.replaceChildren(words);
  }

  #choose(form) {
    by("panes").dataset.form = form;
    for (const button of document.querySelectorAll(FORMS)) button.setAttribute("aria-pressed", String(button.dataset.form === form));
  }

  #copy() {
    const [text, source] = this.#row().querySelectorAll(".prose, .source");
    const markdown = source.textContent;
    const rich = by("panes").dataset.form === "text" && markdown;
    const texts = { "text/plain": markdown, ...(rich && { "text/html": plainly(text) }) };
    const done = put(texts) ? "copy.done" : "copy.refused";
    say(by("copy"), done);
    tell(done);
    setTimeout(() => say(by("copy"), "copy"), COPIED_MS);
  }
}

function reach(text) {
  for (const [selector, key] of [[".tablebox", "content.table"], [".display", "content.formula"], ["pre", "content.code"]]) {
    for (const element of text.querySelectorAll(selector)) {
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
    if (element.matches("td, th") && !keepsItsValue(element.textContent.trim())) element.title = AS_TEXT;
  }
  return copy.innerHTML.replaceAll(`title="${AS_TEXT}"`, "style=\"mso-number-format:'\\@'\"");
}

/** Whether a spreadsheet makes of a cell's text what it says. */
const keepsItsValue = (text) => !text || NUMBER.test(text) && text.replaceAll(/[^0-9]/g, "").length <= MAX_DIGITS;
