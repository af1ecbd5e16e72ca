// SPDX-License-Identifier: Apache-2.0
// Words looked for in all pages of a document that have been read: which pages have them, and where on the page.

import * as api from "./api.js";
import { failure } from "./failures.js";
import { say } from "./languages.js";

const by = (id) => document.getElementById(id);
const MARK = "found";
const inText = ({ parentElement }) => (parentElement.closest(".prose") ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT);
const MOST_PAGES = 100; // that are named; more are counted

export class Search {
  #entry = null;
  #texts = null; // `{done, pages: [{number, text}]}`, of so many pages that are done
  #words = "";
  #go;

  /** `go(number)` is called with the page that is asked for. */
  constructor(go) {
    this.#go = go;
    by("search").onchange = () => this.#run();
  }

  /** Another document is on the screen, or this one has more pages. */
  show(entry) {
    if (entry !== this.#entry) {
      Object.assign(by("search"), { value: "" });
      this.#entry = entry;
      this.#texts = null;
      this.#run();
    }
    by("search").hidden = !entry?.job || entry.job.docparser.pages.done < 2;
  }

  /** Marks the words in the text that is on the screen. */
  mark() {
    if (!("highlights" in CSS)) return;
    CSS.highlights.delete(MARK);
    if (!this.#words) return;
    const ranges = [];
    const walker = document.createTreeWalker(by("sheets"), NodeFilter.SHOW_TEXT, inText);
    while (walker.nextNode()) {
      const text = walker.currentNode.data.toLowerCase();
      for (let at = text.indexOf(this.#words); at >= 0; at = text.indexOf(this.#words, at + this.#words.length)) {
        const range = new Range();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + this.#words.length);
        ranges.push(range);
      }
    }
    CSS.highlights.set(MARK, new Highlight(...ranges));
  }

  async #run() {
    const entry = this.#entry;
    const words = (this.#words = by("search").value.trim().toLowerCase());
    by("found").hidden = !words;
    this.mark();
    if (!words) return;
    try {
      const { done } = entry.job.docparser.pages;
      if (this.#texts?.done !== done) this.#texts = { done, pages: await api.texts(entry.id) };
    } catch (error) {
      if (entry === this.#entry) say(by("foundtext"), ...failure(error).says);
      return;
    }
    if (entry !== this.#entry || words !== this.#words) return; // another question came meanwhile
    const found = this.#texts.pages.filter(({ text }) => text.toLowerCase().includes(words));
    const numbers = found.map(({ number }) => number);
    say(by("foundtext"), numbers.length ? "search.found" : "search.none", { count: numbers.length });
    by("foundpages").replaceChildren(...numbers.slice(0, MOST_PAGES).map((number) => this.#button(number)));
  }

  #button(number) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "plain" });
    say(button, "page.number", { number });
    say(button, "page", { number }, "label");
    button.onclick = () => this.#go(number);
    return button;
  }
}
