// SPDX-License-Identifier: Apache-2.0
// One document: its pages as they arrive, a page's picture with its blocks beside the text.

import * as api from "./api.js";
import * as blocks from "./blocks.js";
import { describe, ended } from "./documents.js";
import { failure, ofKind, showIn } from "./failures.js";
import { hush, say } from "./languages.js";
import { render } from "./markdown.js";
import { Reading } from "./reading.js";
import { Strip } from "./strip.js";

const by = (id) => document.getElementById(id);
const SHOWN = new Set(["done", "failed"]);
const PANES = "[data-pane][aria-pressed]";

export class Viewer {
  #entry = null;
  #number = null;
  #drawn = ""; // which page in which state is on the screen
  #loading = null;
  #ofPage = []; // what went wrong on the page, beside what went wrong with the document
  #strip = new Strip((number) => this.go(number));
  #reading = new Reading();

  constructor() {
    by("boxes").onchange = (event) => (by("sheet").dataset.boxes = event.target.checked);
    for (const button of document.querySelectorAll(PANES)) button.onclick = () => this.#pane(button.dataset.pane);
    document.addEventListener("keydown", (event) => this.#key(event));
    blocks.link(by("sheet"), by("text"), () => this.#pane("reading"));
  }

  get entry() {
    return this.#entry;
  }

  /** Shows a document, from its first page; null: none. */
  open(entry) {
    if (this.#entry !== entry) this.#credit(null);
    this.#entry = entry;
    this.#number = null;
    this.#drawn = "";
    by("viewer").hidden = !entry;
    if (entry) this.update();
  }

  /** The document has changed. */
  update() {
    const { name, job, pages } = this.#entry;
    by("name").textContent = name;
    by("name").title = name;
    say(by("state"), ...describe(this.#entry));
    this.#offer("cancel", !ended(this.#entry));
    this.#offer("retry", job?.state && ended(this.#entry) && !job.docparser.cancelled && job.docparser.pages.failed);
    this.#offer("downloads", job?.docparser.pages.done);
    const first = [...pages.keys()].sort((one, other) => one - other);
    if (this.#number === null && first.length) this.#number = first.find((number) => SHOWN.has(pages.get(number).state)) ?? first[0];
    this.#strip.show(pages, this.#number);
    this.#notice();
    this.#draw();
  }

  go(number) {
    this.#number = number;
    this.update();
  }

  #key(event) {
    if (!this.#entry || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=file], [type=checkbox]), dialog, [role=tab]")) return;
    if (event.key === "ArrowLeft") this.#strip.step(-1);
    if (event.key === "ArrowRight") this.#strip.step(1);
  }

  /** Shows a control or hides it; the focus does not get lost with it. */
  #offer(id, wanted) {
    if (!wanted && by(id).contains(document.activeElement)) by("viewer").focus();
    by(id).hidden = !wanted;
  }

  async #draw() {
    const page = this.#entry.pages.get(this.#number);
    const wanted = `${this.#entry.id} ${this.#number} ${page?.state}`;
    if (wanted === this.#drawn) return;
    this.#drawn = wanted;
    this.#loading?.abort();
    const { signal } = (this.#loading = new AbortController());
    this.#ofPage = [];
    this.#notice();
    if (this.#number) say(by("pagename"), "page", { number: this.#number });
    else hush(by("pagename"));
    if (!page || !SHOWN.has(page.state)) {
      const { job } = this.#entry;
      return this.#blank(page?.state === "running" ? "sheet.running" : job && ended(this.#entry) ? "sheet.none" : "sheet.waiting");
    }
    try {
      const { entry, report, models } = await api.page(this.#entry.id, this.#number, signal);
      if (signal.aborted) return;
      if (report?.error) return this.#broken({ says: ofKind("failed", report.error.kind, "failed"), words: report.error.message });
      const pictures = Object.fromEntries(Object.entries(entry.markdown.images ?? {}).map(([path, url]) => [path, api.picture(url)]));
      const fragment = await render(entry, pictures);
      if (signal.aborted) return;
      this.#show(entry, fragment);
      this.#credit(models);
      this.#note(report ?? {}, blocks.doubts(entry.prunedResult));
    } catch (error) {
      if (!signal.aborted) this.#broken(failure(error));
    }
  }

  #show(entry, fragment) {
    const image = Object.assign(document.createElement("img"), { src: api.picture(entry.inputImage ?? "") });
    say(image, "page", { number: this.#number }, "alt");
    const outlines = blocks.spotted(entry.prunedResult);
    by("sheet").replaceChildren(image, ...blocks.boxes(entry.prunedResult), ...(outlines ? [outlines] : []));
    this.#reading.show(fragment, entry.markdown.text);
    blocks.markDoubtful(by("text"), entry.prunedResult);
    for (const pane of document.querySelectorAll(".scroll")) pane.scrollTop = 0;
  }

  #blank(key) {
    const words = Object.assign(document.createElement("p"), { className: "quietly" });
    say(words, key);
    by("sheet").replaceChildren(words);
    this.#reading.blank();
  }

  #broken(trouble) {
    const place = Object.assign(document.createElement("div"), { className: "quietly" });
    showIn(place, [trouble]);
    by("sheet").replaceChildren(place);
    this.#reading.blank();
  }

  /** Names the model that read the page, and says if it is the demo's. */
  #credit(models) {
    const { model, demo, general } = models?.vlm ?? {};
    by("demo").hidden = !demo;
    by("general").hidden = !general;
    if (model) say(by("readers"), "readers", { vlm: model });
    else hush(by("readers"));
  }

  /** Blocks that are not whole, and how many are doubtful. */
  #note({ blocks: notes = [], notes: remarks = [] }, doubts) {
    const number = this.#number;
    this.#ofPage = remarks.map(({ kind }) => ({ says: [...ofKind("remark", kind, "other"), { number }] }));
    if (notes.length) {
      const reason = ofKind("noted", notes[0].kind, "other");
      this.#ofPage.push({ says: ["noted", { count: notes.length, number, reason }], words: notes[0].message });
    }
    if (doubts) this.#ofPage.push({ says: ["doubtful", { count: doubts, number }] });
    this.#notice();
  }

  #notice() {
    const { job } = this.#entry;
    const failures = [];
    if (job?.docparser.waitsFor) failures.push({ says: ["job.waits"], words: job.docparser.waitsFor });
    else if (job?.state === "failed" && !job.docparser.cancelled) failures.push({ says: ["job.failed"], words: job.errorMsg });
    else if (job?.state === "done" && job.errorMsg) failures.push({ says: ["job.partly", { count: job.docparser.pages.failed }], words: job.errorMsg });
    const bad = failures.length || this.#ofPage.some(({ words }) => words);
    by("notice").dataset.kind = job?.docparser.waitsFor || !bad ? "" : "bad";
    showIn(by("notice"), [...failures, ...this.#ofPage]);
  }

  #pane(name) {
    by("panes").dataset.pane = name;
    for (const button of document.querySelectorAll(PANES)) button.setAttribute("aria-pressed", String(button.dataset.pane === name));
  }
}
