// SPDX-License-Identifier: Apache-2.0
// One document: its pages as they came, and as they are read, each page's picture with its blocks beside its text.

import * as api from "./api.js";
import * as blocks from "./blocks.js";
import { failure, ofKind, showIn } from "./failures.js";
import { hush, say } from "./languages.js";
import { render } from "./markdown.js";
import { Originals } from "./originals.js";
import * as places from "./places.js";
import { Reading } from "./reading.js";
import { Search } from "./search.js";
import { Sheets } from "./sheets.js";
import { deletion, describe, duration, ended, heldUp, retriable, stage } from "./stages.js";
import { Strip } from "./strip.js";
import * as turn from "./turn.js";
import * as zoom from "./zoom.js";

const by = (id) => document.getElementById(id);
const AGAIN_MS = 5000;
const SHOWN = new Set(["done", "failed"]);
// Where the arrows move the cursor or choose, or scroll what is wider than its place.
const OWN_ARROWS = "input:not([type=file], [type=checkbox]), select, dialog, .prose [tabindex], [data-zoomed=true] .picture";
const PANES = "[data-pane][aria-pressed]";

export class Viewer {
  #entry = null;
  #number = null;
  #notes = new Map(); // number -> what is to be said of the page
  #strip = new Strip((number) => this.go(number));
  #search = new Search((number, block) => this.go(number, block));
  #sheets = new Sheets((...page) => this.#fill(...page), (number) => this.#read(number));
  #reading = new Reading(() => this.#sheets.row);
  #originals = new Originals();
  #keptHours = null;
  #sought = null; // `{number, block}` that was asked for before its page was there

  /** `onTurned(file)` hears of a page that was turned, to be read anew; `onTrouble(error)` of what does not work. */
  constructor(onTurned, onTrouble) {
    by("boxes").onchange = (event) => (by("sheets").dataset.boxes = event.target.checked);
    zoom.connect();
    turn.connect(() => ({ row: this.#sheets.row, name: this.#entry.name, number: this.#number }), onTurned, onTrouble);
    for (const button of document.querySelectorAll(PANES)) button.onclick = () => this.#pane(button.dataset.pane);
    document.addEventListener("keydown", (event) => this.#key(event));
    blocks.link(by("sheets"), () => this.#pane("reading"));
  }

  get entry() {
    return this.#entry;
  }

  get number() {
    return this.#number;
  }

  /** The service keeps documents for `hours` after they are done. */
  keep(hours) {
    this.#keptHours = hours;
    if (this.#entry) this.update();
  }

  /** Shows a document, from its first page; null: none. */
  open(entry) {
    if (this.#entry !== entry) {
      this.#credit(null);
      this.#sheets.clear();
      this.#notes.clear();
      this.#number = this.#sought = null;
    }
    this.#entry = entry;
    by("viewer").hidden = !entry;
    if (entry) this.update();
    else this.#search.show(null);
  }

  /** The document has changed. */
  update() {
    const { name, job, upload } = this.#entry;
    by("name").textContent = name;
    by("name").title = name;
    by("state").dataset.stage = stage(this.#entry);
    say(by("state"), ...describe(this.#entry));
    for (const [id, words] of [["time", duration(this.#entry)], ["until", deletion(this.#entry, this.#keptHours)]]) {
      if (words) say(by(id), ...words);
      else hush(by(id));
    }
    this.#offer("cancel", !ended(this.#entry));
    this.#offer("retry", heldUp(this.#entry) || retriable(this.#entry));
    say(by("retry"), upload ? "resend" : "retry");
    this.#offer("remove", ended(this.#entry));
    this.#offer("downloads", job?.docparser.pages.done);
    const pages = this.#pages();
    if (!pages.has(this.#number)) this.#number = Math.min(...pages.keys());
    this.#strip.show(pages, this.#number);
    this.#search.show(this.#entry);
    this.#sheets.show(new Map([...pages].map(([number, page]) => [number, this.#shownAs(page)])), this.#number);
    say(by("pagename"), "page", { number: this.#number });
    this.#notice();
  }

  /** Goes to a page, and there to a block. */
  go(number, block = null) {
    this.#read(number);
    this.#sheets.go(number);
    this.#sought = block === null ? null : { number, block };
    this.#seek();
  }

  /** A page is read now. */
  #read(number) {
    this.#number = number;
    this.update();
  }

  /** The pages by their numbers; as long as none is known, those that the document has. */
  #pages() {
    const { pages, originals = 1 } = this.#entry;
    if (pages.size) return pages;
    return new Map(Array.from({ length: originals }, (_, index) => [index + 1, { page: index + 1, state: "queued" }]));
  }

  /** What a page looks like: what is not the same is another look. News of a page that is done is: it was joined. */
  #shownAs(page) {
    const { state } = page;
    const { id, upload } = this.#entry;
    return SHOWN.has(state) ? page : [id, state, upload?.state, ended(this.#entry)].join(" ");
  }

  #key(event) {
    if (!this.#entry || event.target.closest(OWN_ARROWS)) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return; // the last one extends a selection
    if (event.key === "ArrowLeft") this.#strip.step(-1);
    if (event.key === "ArrowRight") this.#strip.step(1);
  }

  /** Shows a control or hides it; the focus does not get lost with it. */
  #offer(id, wanted) {
    if (!wanted && by(id).contains(document.activeElement)) by("viewer").focus();
    by(id).hidden = !wanted;
  }

  async #fill(row, number, signal) {
    const page = this.#pages().get(number);
    if (!SHOWN.has(page.state)) return this.#wait(row, number, page, signal);
    try {
      const { entry, report, models } = await api.page(this.#entry.id, number, signal);
      if (signal.aborted) return;
      if (report?.error) {
        return this.#broken(row, number, { says: ofKind("failed", report.error.kind, "failed"), words: report.error.message }, signal);
      }
      const pictures = Object.fromEntries(Object.entries(entry.markdown.images ?? {}).map(([path, url]) => [path, api.picture(url)]));
      const fragment = await render(entry, pictures);
      if (signal.aborted) return;
      const unread = !fragment.textContent.trim();
      this.#show(row, number, entry, fragment);
      this.#credit(models);
      this.#note(number, report ?? {}, blocks.doubts(entry.prunedResult), unread);
    } catch (error) {
      if (signal.aborted) return;
      await this.#broken(row, number, failure(error), signal);
      if (error instanceof api.ApiError && !api.refuses(error)) {
        setTimeout(() => signal.aborted || this.#sheets.again(number), AGAIN_MS); // a service that is away comes back
      }
    }
  }

  #show(row, number, entry, fragment) {
    const { width, height } = entry.prunedResult;
    const image = Object.assign(document.createElement("img"), { src: api.picture(entry.inputImage ?? ""), width, height });
    say(image, "page", { number }, "alt");
    const outlines = blocks.spotted(entry.prunedResult);
    row.querySelector(".sheetpage").replaceChildren(image, ...blocks.boxes(entry.prunedResult), ...(outlines ? [outlines] : []));
    this.#reading.show(row, fragment, entry.markdown.text);
    blocks.markDoubtful(row.querySelector(".prose"), entry.prunedResult);
    places.keep(row, entry);
    this.#search.mark();
    this.#seek();
  }

  /** The page as it came, until it is read. */
  #wait(row, number, page, signal) {
    const { upload } = this.#entry;
    const words = upload ? (upload.state === "waiting" ? "sheet.unsent" : "sheet.sending")
      : page.state === "running" ? "sheet.running" : ended(this.#entry) ? "sheet.none" : "sheet.waiting";
    this.#reading.blank(row, words);
    return this.#original(row, number, signal);
  }

  async #original(row, number, signal) {
    const entry = this.#entry;
    const { originals } = entry;
    if (row.querySelector(".sheetpage > img")) return;
    const image = await this.#originals.of(entry, number, signal);
    if (signal.aborted || !image) return;
    row.querySelector(".sheetpage").replaceChildren(image);
    if (entry === this.#entry && entry.originals !== originals) this.update(); // now it is known how many pages there are
  }

  #broken(row, number, trouble, signal) {
    this.#reading.blank(row);
    showIn(row.querySelector(".prose"), [trouble]);
    return this.#original(row, number, signal);
  }

  #seek() {
    const row = this.#sheets.row;
    const { number, block } = this.#sought ?? {};
    if (!row || number !== this.#number || !blocks.lead(row, block)) return;
    this.#sought = null;
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
  #note(number, { blocks: ofBlocks = [], notes: ofPage = [] }, doubts, unread) {
    const told = ofPage.map(({ kind }) => ({ says: [...ofKind("note", kind, "other"), { number }] }));
    if (ofBlocks.length) {
      const reason = ofKind("noted", ofBlocks[0].kind, "other");
      told.push({ says: ["noted", { count: ofBlocks.length, number, reason }], words: ofBlocks[0].message });
    }
    if (doubts) told.push({ says: ["doubtful", { count: doubts, number }] });
    if (unread && !told.length) told.push({ says: ["unread", { number }] });
    this.#notes.set(number, told);
    this.#notice();
  }

  #notice() {
    const { job, upload, pages } = this.#entry;
    const failures = [];
    const ofPage = (SHOWN.has(pages.get(this.#number)?.state) && this.#notes.get(this.#number)) || [];
    if (upload?.error) failures.push(failure(upload.error));
    else if (job?.docparser.waitsFor) failures.push({ says: ["job.waits"], words: job.docparser.waitsFor });
    else if (job?.state === "failed" && !job.docparser.cancelled) failures.push({ says: ["job.failed"], words: job.errorMsg });
    else if (job?.state === "done" && job.errorMsg) {
      const count = job.docparser.pages.failed;
      failures.push({ says: count ? ["job.partly", { count }] : ["job.apart"], words: job.errorMsg });
    }
    const bad = failures.length || ofPage.some(({ words }) => words);
    by("notice").dataset.kind = job?.docparser.waitsFor || !bad ? "" : "bad";
    showIn(by("notice"), [...failures, ...ofPage]);
  }

  #pane(name) {
    by("panes").dataset.pane = name;
    for (const button of document.querySelectorAll(PANES)) button.setAttribute("aria-pressed", String(button.dataset.pane === name));
  }
}
