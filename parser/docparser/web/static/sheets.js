// SPDX-License-Identifier: Apache-2.0
// The pages of a document one below the other, each with its picture and its text beside it. A page is filled when it
// comes near the screen and emptied when it is far away, so that a book costs what a few pages do.

import { say } from "./languages.js";

const by = (id) => document.getElementById(id);
const NEAR = "100% 0px"; // of the screen's height, above and below
const SHAPE = "--shape"; // of the place of a page's picture, as long as it is empty
const LINE_SHARE = 0.2; // of the screen's height: the page that lies on this line is the one that is read
const LINE = `-${100 * LINE_SHARE}% 0px -${100 * (1 - LINE_SHARE)}% 0px`;

export class Sheets {
  #rows = new Map(); // number -> row
  #states = new Map(); // number -> the state in which it is to be shown
  #filled = new Map(); // number -> the state in which it is shown
  #loading = new Map(); // number -> AbortController
  #current = null;
  #fill;
  #near;
  #line;
  #held = null; // {row, above}: the row on the line, and how much of it lies above the screen
  #placed = null; // where the last scroll of ours ended; null after one of the reader's
  #top = 0; // where the last scroll ended, the browser's own left out
  // Rows get another height when they are filled, or when the shape of pages is known; the one that is read stays where
  // it is. Where all of it has become too short for where it was, the browser has moved it by then: so it is put there.
  #sizes = new ResizeObserver(() => {
    if (!this.#held?.row.isConnected) return;
    const sheets = by("sheets");
    const place = this.#held.row.offsetTop + this.#held.above;
    if (Math.abs(sheets.scrollTop - place) > 1) this.#place(place); // else a scroll that is under way would end
  });

  /** `fill(row, number, signal)` shows a page; `onPage(number)` hears which one is read. */
  constructor(fill, onPage) {
    this.#fill = fill;
    const root = by("sheets");
    const number = ({ target }) => Number(target.dataset.page);
    root.addEventListener("scroll", () => this.#hold(), { passive: true });
    this.#near = new IntersectionObserver((seen) => {
      for (const one of seen) {
        one.target.dataset.near = one.isIntersecting;
        if (one.isIntersecting) this.#draw(number(one));
        else this.#empty(number(one));
      }
    }, { root, rootMargin: NEAR });
    this.#line = new IntersectionObserver((seen) => {
      const one = seen.findLast(({ isIntersecting }) => isIntersecting);
      if (one && number(one) !== this.#current) onPage(number(one));
    }, { root, rootMargin: LINE });
  }

  /** The row of the page that is read; undefined: there is none. */
  get row() {
    return this.#rows.get(this.#current);
  }

  /** Of another document. */
  clear() {
    for (const number of this.#rows.keys()) this.#remove(number);
    this.#current = this.#held = null;
    by("sheets").style.removeProperty(SHAPE);
    by("sheets").scrollTop = this.#top = 0;
  }

  /** `states`: number -> in which state the page is; `current` is read. */
  show(states, current) {
    this.#states = states;
    for (const number of this.#rows.keys()) if (!states.has(number)) this.#remove(number);
    let before = null;
    for (const number of [...states.keys()].sort((one, other) => one - other)) {
      const row = this.#rows.get(number) ?? this.#make(number);
      const place = before ? before.nextSibling : by("sheets").firstChild;
      if (place !== row) by("sheets").insertBefore(row, place);
      before = row;
      if (row.dataset.near === "true") this.#draw(number);
    }
    if (current === this.#current) return;
    this.#mark(false);
    this.#current = current;
    this.#mark(true);
  }

  /** Fills a page again that could not be filled. */
  again(number) {
    if (this.#filled.delete(number)) this.#draw(number);
  }

  /** Brings a page to the top. */
  go(number) {
    const row = this.#rows.get(number);
    if (!row) return;
    this.#place(row.offsetTop);
    this.#held = { row, above: 0 };
  }

  #place(top) {
    by("sheets").scrollTop = top;
    this.#placed = this.#top = by("sheets").scrollTop;
  }

  // The event of a scroll of ours comes a frame later, when rows above may have another height already: what is held
  // stays held, or the page before would be taken for the one that is read. It stays held too where the browser moved
  // all, as it has become too short for where it was: the rows' new sizes are told next, and put it back.
  #hold() {
    const sheets = by("sheets");
    if (sheets.scrollTop === this.#placed || this.#top > sheets.scrollHeight - sheets.clientHeight + 1) return;
    this.#placed = null;
    this.#top = sheets.scrollTop;
    const line = sheets.scrollTop + LINE_SHARE * sheets.clientHeight;
    const row = [...sheets.children].findLast(({ offsetTop }) => offsetTop <= line);
    this.#held = row && { row, above: sheets.scrollTop - row.offsetTop };
  }

  /** Boxes of the page that is read are one stop of the Tab key, those of others none. */
  #mark(on) {
    if (!this.row) return;
    if (on) this.row.setAttribute("aria-current", "page");
    else this.row.removeAttribute("aria-current");
    const [first] = this.row.querySelectorAll(on ? ".box" : '.box[tabindex="0"]');
    if (first) first.tabIndex = on ? 0 : -1;
  }

  async #draw(number) {
    const state = this.#states.get(number);
    if (this.#filled.get(number) === state) return;
    this.#filled.set(number, state);
    this.#loading.get(number)?.abort();
    const control = new AbortController();
    this.#loading.set(number, control);
    const row = this.#rows.get(number);
    await this.#fill(row, number, control.signal);
    if (control.signal.aborted) return;
    row.style.minHeight = "";
    const [first] = row.querySelectorAll(".box");
    if (first) first.tabIndex = number === this.#current ? 0 : -1;
    this.#shape(row.querySelector(".sheetpage > img"));
  }

  /** Keeps the shape of a page's picture for when it is emptied. The first that is known is taken for those of the others. */
  #shape(image) {
    if (!image?.width || !image.height) return;
    const sheets = by("sheets");
    const places = sheets.style.getPropertyValue(SHAPE) ? [image.parentElement] : [image.parentElement, sheets];
    for (const place of places) place.style.setProperty(SHAPE, `${image.width} / ${image.height}`);
  }

  /** Keeps the page's height, so that nothing moves. */
  #empty(number) {
    if (!this.#filled.delete(number)) return;
    this.#loading.get(number)?.abort();
    const row = this.#rows.get(number);
    row.style.minHeight = `${row.offsetHeight}px`;
    for (const place of row.querySelectorAll(".sheetpage, .prose, .source")) place.replaceChildren();
  }

  #make(number) {
    const make = (name, className, ...inside) => {
      const element = Object.assign(document.createElement(name), { className });
      element.append(...inside);
      return element;
    };
    const picture = make("div", "sheetpage");
    const [text, source] = [make("div", "prose"), make("pre", "source")];
    text.lang = source.lang = "";
    const row = make("section", "row", make("div", "picture", picture), make("div", "reading", text, source));
    row.dataset.page = number;
    say(row, "page", { number }, "label");
    picture.setAttribute("role", "group");
    say(picture, "blocks.group", {}, "label");
    this.#rows.set(number, row);
    this.#near.observe(row);
    this.#line.observe(row);
    this.#sizes.observe(row);
    return row;
  }

  #remove(number) {
    const row = this.#rows.get(number);
    this.#near.unobserve(row);
    this.#line.unobserve(row);
    this.#sizes.unobserve(row);
    this.#loading.get(number)?.abort();
    row.remove();
    for (const one of [this.#rows, this.#filled, this.#loading]) one.delete(number);
  }
}
