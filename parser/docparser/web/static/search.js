// SPDX-License-Identifier: Apache-2.0
// Places in all pages of a document that have been read: of words, and of what is doubtful, not whole or failed.

import * as api from "./api.js";
import { failure } from "./failures.js";
import { say } from "./languages.js";
import { words } from "./markdown.js";
import * as places from "./places.js";
import { ended } from "./stages.js";

const by = (id) => document.getElementById(id);
const MARK = "found";
const inText = ({ parentElement }) => (parentElement.closest(".prose") ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT);
const MOST = 100; // places that are named; more are counted
const DOUBTS = Symbol("doubts");

export class Search {
  #entry = null;
  #pages = null; // `{at, pages}`: as `api.lines`, when the job was so far
  #words = ""; // as they are compared
  #asked = null;
  #go;

  /** `go(number, block)` is called with the page that is asked for, and the index of a block there. */
  constructor(go) {
    this.#go = go;
    by("search").onchange = () => this.#find();
    by("doubts").onclick = () => this.#ask(by("doubts").getAttribute("aria-pressed") === "false");
    places.connect(by("sheets"), () => this.#words);
  }

  /** Another document is on the screen, or this one has more pages. */
  show(entry) {
    if (entry !== this.#entry) {
      Object.assign(by("search"), { value: "" });
      this.#entry = entry;
      this.#pages = null;
      this.#find();
    }
    const { done = 0, failed = 0 } = entry?.job?.docparser.pages ?? {};
    by("search").hidden = done < 2;
    by("doubts").hidden = !done && !failed;
  }

  /** Marks the words in the text that is on the screen, and on the pictures of its pages. */
  mark() {
    for (const row of by("sheets").children) places.mark(row, this.#words);
    if (!("highlights" in CSS)) return;
    CSS.highlights.delete(MARK);
    if (!this.#words) return;
    const ranges = [];
    const walker = document.createTreeWalker(by("sheets"), NodeFilter.SHOW_TEXT, inText);
    while (walker.nextNode()) {
      const text = places.plain(walker.currentNode.data);
      for (let at = text.indexOf(this.#words); at >= 0; at = text.indexOf(this.#words, at + this.#words.length)) {
        const range = new Range();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + this.#words.length);
        ranges.push(range);
      }
    }
    CSS.highlights.set(MARK, new Highlight(...ranges));
  }

  /** Which pages have the words. */
  #find() {
    this.#words = places.plain(by("search").value).trim();
    this.mark();
    return this.#list(this.#words, (pages) => {
      const found = pages.filter((page) => (page.text ??= places.plain(words(page.entry))).includes(this.#words));
      say(by("foundtext"), found.length ? "search.found" : "search.none", { count: found.length });
      return found.map(({ number }) => ({ number }));
    });
  }

  /** Which blocks are doubtful or not whole, and which pages failed. */
  #ask(wanted) {
    return this.#list(wanted && DOUBTS, (pages) => {
      const places = pages.flatMap(doubts);
      say(by("foundtext"), places.length ? "doubts.found" : "doubts.none", { count: places.length });
      return places;
    });
  }

  /** Lists the places that `choose(pages)` finds; nothing if nothing is `asked`. */
  async #list(asked, choose) {
    const entry = this.#entry;
    this.#asked = asked;
    by("doubts").setAttribute("aria-pressed", String(asked === DOUBTS));
    by("found").hidden = !asked;
    by("foundpages").replaceChildren();
    if (!asked) return;
    try {
      const at = `${entry.job.docparser.pages.done} ${ended(entry)}`; // at the end pages may be joined
      if (this.#pages?.at !== at) this.#pages = { at, pages: await api.lines(entry.id) };
    } catch (error) {
      if (entry === this.#entry) say(by("foundtext"), ...failure(error).says);
      return;
    }
    if (entry !== this.#entry || asked !== this.#asked) return; // another question came meanwhile
    by("foundpages").replaceChildren(...choose(this.#pages.pages).slice(0, MOST).map((place) => this.#button(place)));
  }

  #button({ number, block = null, words = "" }) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "plain" });
    const page = document.createElement("span");
    button.append(page);
    say(page, words ? "page" : "page.number", { number });
    if (words) button.append(Object.assign(document.createElement("span"), { className: "snippet", textContent: words, lang: "" }));
    else say(button, "page", { number }, "label");
    button.onclick = () => this.#go(number, block);
    return button;
  }
}

/** The places of a page that somebody should look at: `{number, block, words}`. */
function doubts({ number, entry, report }) {
  if (report.error) return [{ number, words: report.error.message }];
  const blocks = entry.prunedResult.parsing_res_list;
  const noted = (report.blocks ?? []).map(({ block_id: id, message }) => [blocks.findIndex((block) => block.block_id === id), message]);
  const doubtful = [...blocks.entries()].filter(([, { doubtful }]) => doubtful).map(([index, { block_content: text }]) => [index, text]);
  const places = new Map([...doubtful, ...noted]);
  return [...places].map(([index, words]) => ({ number, block: index < 0 ? null : index, words: words || "?" }));
}
