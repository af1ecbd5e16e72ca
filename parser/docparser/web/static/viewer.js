// SPDX-License-Identifier: Apache-2.0
// One document: its pages as they arrive, a page's picture with its blocks beside the text.

import * as api from "./api.js";
import * as blocks from "./blocks.js";
import { describe, duration, ended, retriable, stage } from "./documents.js";
import { failure, ofKind, showIn } from "./failures.js";
import { hush, say } from "./languages.js";
import { render } from "./markdown.js";
import { Reading } from "./reading.js";
import { Search } from "./search.js";
import { Strip } from "./strip.js";
import * as zoom from "./zoom.js";

const by = (id) => document.getElementById(id);
const DRAWN = new Set(["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/avif"]);
const SHOWN = new Set(["done", "failed"]);
const OWN_ARROWS = "input:not([type=file], [type=checkbox]), select, dialog, [role=tab]";
const PANES = "[data-pane][aria-pressed]";

export class Viewer {
  #entry = null;
  #number = null;
  #drawn = ""; // which page in which state is on the screen
  #loading = null;
  #ofPage = []; // what went wrong on the page, beside what went wrong with the document
  #strip = new Strip((number) => this.go(number));
  #search = new Search((number) => this.go(number));
  #reading = new Reading();

  constructor() {
    by("boxes").onchange = (event) => (by("sheet").dataset.boxes = event.target.checked);
    zoom.connect();
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
    else this.#search.show(null);
  }

  /** The document has changed. */
  update() {
    const { name, job, pages, upload } = this.#entry;
    by("name").textContent = name;
    by("name").title = name;
    by("state").dataset.stage = stage(this.#entry);
    say(by("state"), ...describe(this.#entry));
    const time = duration(this.#entry);
    if (time) say(by("time"), ...time);
    else hush(by("time"));
    const unsent = upload?.state === "failed";
    this.#offer("cancel", !ended(this.#entry) && !unsent);
    this.#offer("retry", unsent || retriable(this.#entry));
    say(by("retry"), unsent ? "resend" : "retry");
    this.#offer("remove", ended(this.#entry) || unsent);
    this.#offer("downloads", job?.docparser.pages.done);
    const first = [...pages.keys()].sort((one, other) => one - other);
    if (this.#number === null && first.length) this.#number = first.find((number) => SHOWN.has(pages.get(number).state)) ?? first[0];
    this.#strip.show(pages, this.#number);
    this.#search.show(this.#entry);
    this.#notice();
    this.#draw();
  }

  go(number) {
    this.#number = number;
    this.update();
  }

  #key(event) {
    if (!this.#entry || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(OWN_ARROWS)) return;
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
    const { id, upload } = this.#entry;
    const shown = page && SHOWN.has(page.state);
    const wanted = [id, this.#number, page?.state, ...(shown ? [] : [upload?.state, ended(this.#entry)])].join(" ");
    if (wanted === this.#drawn) return;
    this.#drawn = wanted;
    this.#loading?.abort();
    const { signal } = (this.#loading = new AbortController());
    this.#ofPage = [];
    this.#notice();
    if (this.#number) say(by("pagename"), "page", { number: this.#number });
    else hush(by("pagename"));
    if (!shown) {
      if (upload) return this.#blank(upload.state === "failed" ? "sheet.unsent" : "sheet.sending");
      if (page?.state === "running") return this.#blank("sheet.running");
      return this.#blank(ended(this.#entry) ? "sheet.none" : "sheet.waiting");
    }
    try {
      const { entry, report, models } = await api.page(id, this.#number, signal);
      if (signal.aborted) return;
      if (report?.error) return this.#broken({ says: ofKind("failed", report.error.kind, "failed"), words: report.error.message });
      const pictures = Object.fromEntries(Object.entries(entry.markdown.images ?? {}).map(([path, url]) => [path, api.picture(url)]));
      const fragment = await render(entry, pictures);
      if (signal.aborted) return;
      const unread = !fragment.textContent.trim();
      this.#show(entry, fragment);
      this.#credit(models);
      this.#note(report ?? {}, blocks.doubts(entry.prunedResult), unread);
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
    this.#search.mark();
    for (const pane of document.querySelectorAll(".scroll")) pane.scrollTop = 0;
  }

  #blank(key) {
    const words = Object.assign(document.createElement("p"), { className: "quietly" });
    say(words, key);
    by("sheet").replaceChildren(words, ...this.#original());
    this.#reading.blank();
  }

  /** The picture that was chosen here, until the service has its page; a browser draws no PDF in a page. */
  #original() {
    const { file } = this.#entry;
    if (!file || !DRAWN.has(file.type)) return [];
    const image = Object.assign(document.createElement("img"), { src: URL.createObjectURL(file) });
    say(image, "sheet.original", {}, "alt");
    image.onload = image.onerror = () => URL.revokeObjectURL(image.src);
    return [image];
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

  /** Blocks that are not whole, how many are doubtful, and whether nothing but pictures was found. */
  #note({ blocks: ofBlocks = [], notes: ofPage = [] }, doubts, unread) {
    const number = this.#number;
    this.#ofPage = ofPage.map(({ kind }) => ({ says: [...ofKind("note", kind, "other"), { number }] }));
    if (ofBlocks.length) {
      const reason = ofKind("noted", ofBlocks[0].kind, "other");
      this.#ofPage.push({ says: ["noted", { count: ofBlocks.length, number, reason }], words: ofBlocks[0].message });
    }
    if (doubts) this.#ofPage.push({ says: ["doubtful", { count: doubts, number }] });
    if (unread && !this.#ofPage.length) this.#ofPage.push({ says: ["unread", { number }] });
    this.#notice();
  }

  #notice() {
    const { job, upload } = this.#entry;
    const failures = [];
    if (upload?.error) failures.push(failure(upload.error));
    else if (job?.docparser.waitsFor) failures.push({ says: ["job.waits"], words: job.docparser.waitsFor });
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
