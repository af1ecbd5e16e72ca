// SPDX-License-Identifier: Apache-2.0
// One document: its pages as they arrive, a page's picture with its blocks beside the text.

import * as api from "./api.js";
import * as blocks from "./blocks.js";
import { describe, ended } from "./documents.js";
import { render } from "./markdown.js";

const by = (id) => document.getElementById(id);
const SHOWN = new Set(["done", "failed"]);

export class Viewer {
  #entry = null;
  #number = null;
  #drawn = ""; // which page in which state is on the screen
  #loading = null;
  #markdown = "";

  constructor() {
    by("previous").onclick = () => this.#step(-1);
    by("next").onclick = () => this.#step(1);
    by("boxes").onchange = (event) => (by("sheet").dataset.boxes = event.target.checked);
    by("strip").onclick = (event) => event.target.dataset.page && this.go(Number(event.target.dataset.page));
    by("copy").onclick = () => this.#copy();
    for (const button of document.querySelectorAll(".switch button")) button.onclick = () => this.#pane(button.dataset.pane);
    const tabs = [by("tab-text"), by("tab-source")];
    for (const tab of tabs) {
      tab.onclick = () => this.#tab(tab, tabs);
      tab.onkeydown = (event) => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        const other = tabs.find((one) => one !== tab);
        this.#tab(other, tabs);
        other.focus();
        event.stopPropagation();
      };
    }
    document.addEventListener("keydown", (event) => this.#key(event));
    blocks.link(by("sheet"), by("text"));
  }

  get entry() {
    return this.#entry;
  }

  /** Shows a document, from its first page; null: none. */
  open(entry) {
    this.#entry = entry;
    this.#number = null;
    this.#drawn = "";
    by("main").hidden = !entry;
    if (entry) this.update();
  }

  /** The document has changed. */
  update() {
    const { name, job, pages } = this.#entry;
    by("name").textContent = name;
    by("name").title = name;
    by("state").textContent = describe(this.#entry);
    by("cancel").hidden = ended(this.#entry);
    by("retry").hidden = !(job?.state && ended(this.#entry) && !job.docparser.cancelled && job.docparser.pages.failed);
    by("downloads").hidden = !job?.docparser.pages.done;
    const failed = job?.state === "failed" && !job.docparser.cancelled;
    const trouble = job?.docparser.waitsFor ? `The service waits: ${job.docparser.waitsFor}` : job?.errorMsg;
    this.#notice(trouble, failed || job?.docparser.pages.failed ? "bad" : "");
    const numbers = [...pages.keys()].sort((a, b) => a - b);
    this.#strip(numbers);
    const first = numbers.find((number) => SHOWN.has(pages.get(number).state)) ?? numbers[0];
    if (this.#number === null && first !== undefined) this.#number = first;
    this.#draw();
  }

  go(number) {
    this.#number = number;
    this.update();
    by("strip").querySelector('[aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #step(by_) {
    const numbers = [...this.#entry.pages.keys()].sort((a, b) => a - b);
    const next = numbers[numbers.indexOf(this.#number) + by_];
    if (next !== undefined) this.go(next);
  }

  #key(event) {
    if (!this.#entry || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=file], [type=checkbox]), dialog, [role=tab]")) return;
    if (event.key === "ArrowLeft") this.#step(-1);
    if (event.key === "ArrowRight") this.#step(1);
  }

  #strip(numbers) {
    const strip = by("strip");
    while (strip.children.length > numbers.length) strip.lastChild.remove();
    numbers.forEach((number, index) => {
      if (!strip.children[index]) {
        const item = document.createElement("li");
        item.append(Object.assign(document.createElement("button"), { type: "button" }));
        strip.append(item);
      }
      const button = strip.children[index].firstChild;
      const { state } = this.#entry.pages.get(number);
      button.textContent = number;
      button.dataset.page = number;
      button.dataset.state = state;
      button.setAttribute("aria-label", `Page ${number}, ${state}`);
      if (number === this.#number) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    });
    const at = numbers.indexOf(this.#number);
    by("previous").disabled = at <= 0;
    by("next").disabled = at < 0 || at === numbers.length - 1;
    strip.parentElement.hidden = numbers.length < 2;
  }

  async #draw() {
    const page = this.#entry.pages.get(this.#number);
    const wanted = `${this.#entry.id} ${this.#number} ${page?.state}`;
    if (wanted === this.#drawn) return;
    this.#drawn = wanted;
    this.#loading?.abort();
    const { signal } = (this.#loading = new AbortController());
    by("pagename").textContent = this.#number ? `Page ${this.#number}` : "";
    if (!page || !SHOWN.has(page.state)) {
      const { job } = this.#entry;
      const words = page?.state === "running" ? "This page is being read …" : job && ended(this.#entry) ? "No result." : "Waiting for its turn …";
      return this.#blank(words);
    }
    try {
      const { entry, report, models } = await api.page(this.#entry.id, this.#number, signal);
      if (report?.error) return this.#blank(`This page could not be parsed: ${report.error.message}`);
      const pictures = Object.fromEntries(Object.entries(entry.markdown.images ?? {}).map(([path, url]) => [path, api.picture(url)]));
      const fragment = await render(entry.markdown.text, pictures);
      if (signal.aborted) return;
      this.#show(entry, fragment);
      if (report?.blocks) this.#notice(`${report.blocks.length} blocks of page ${this.#number}: ${report.blocks[0].message}`, "bad");
      else if (models?.vlm?.demo && by("notice").hidden) this.#notice("Read with demo weights: made for clean printed English, no measure of the published model.", "");
    } catch (error) {
      if (!signal.aborted) this.#blank(error.message);
    }
  }

  #show(entry, fragment) {
    const image = Object.assign(document.createElement("img"), { alt: `Page ${this.#number}`, src: api.picture(entry.inputImage ?? "") });
    const outlines = blocks.spotted(entry.prunedResult);
    by("sheet").replaceChildren(image, ...blocks.boxes(entry.prunedResult), ...(outlines ? [outlines] : []));
    this.#markdown = entry.markdown.text;
    by("text").replaceChildren(fragment);
    if (!by("text").textContent.trim() && !by("text").querySelector("img")) this.#say(by("text"), "Nothing was read on this page.");
    by("source").textContent = this.#markdown;
    blocks.match(by("text"), entry.prunedResult);
    for (const pane of document.querySelectorAll(".scroll")) pane.scrollTop = 0;
  }

  #blank(words) {
    this.#markdown = "";
    this.#say(by("sheet"), words);
    by("text").replaceChildren();
    by("source").textContent = "";
  }

  #say(where, words) {
    where.replaceChildren(Object.assign(document.createElement("p"), { className: "quietly", textContent: words }));
  }

  #notice(words, kind) {
    by("notice").hidden = !words;
    by("notice").textContent = words ?? "";
    by("notice").dataset.kind = kind;
  }

  #pane(name) {
    by("panes").dataset.pane = name;
    for (const button of document.querySelectorAll(".switch button")) button.setAttribute("aria-pressed", String(button.dataset.pane === name));
  }

  #tab(chosen, tabs) {
    for (const tab of tabs) {
      const on = tab === chosen;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      by(tab.getAttribute("aria-controls")).hidden = !on;
    }
  }

  async #copy() {
    const button = by("copy");
    try {
      await navigator.clipboard.writeText(this.#markdown);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed here";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  }
}
