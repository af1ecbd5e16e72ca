// SPDX-License-Identifier: Apache-2.0
// The list of documents: filtered, sorted, some of them picked. Rows out of sight are laid out only when they come into
// sight (`content-visibility`), so that the list holds hundreds; a change draws its own row anew and no other.

import { hush, say } from "./languages.js";
import { step, UP_AND_DOWN } from "./rove.js";
import { describe, duration, ended, stage } from "./stages.js";

const by = (id) => document.getElementById(id);
const BY_NAME = new Intl.Collator(undefined, { numeric: true });
const KINDS = {
  all: () => true,
  busy: (entry) => ["waiting", "sending", "running"].includes(stage(entry)),
  done: (entry) => stage(entry) === "done",
  trouble: (entry) => ["partly", "failed", "cancelled"].includes(stage(entry)),
};
const ORDERS = {
  newest: (entries) => entries,
  oldest: (entries) => [...entries].reverse(),
  name: (entries) => [...entries].sort((one, other) => BY_NAME.compare(one.name, other.name)),
};

const pathOf = ({ folder, name }) => (folder ? `${folder}/${name}` : name);

export class Sidebar extends EventTarget {
  /** The documents in the list, in its order, and those of them that are picked. */
  shown = [];
  picked = [];
  #list = by("documents");
  #rows = new Map(); // document -> its row
  #picks = new Set();
  #all = [];
  #chosen = null;
  #stop = null; // the document whose row is the list's stop of the Tab key
  #soon = false; // whether the rows are about to be arranged
  #choose;

  constructor(choose) {
    super();
    this.#choose = choose;
    for (const id of ["filter", "kind", "order"]) by(id).oninput = () => this.#arrange();
    by("all").onchange = ({ target }) => {
      this.#picks = new Set(target.checked ? this.shown : []);
      this.#arrange();
    };
    this.#list.onkeydown = (event) => this.#rove(event);
    this.#list.addEventListener("focusin", ({ target }) => {
      const found = this.shown.find((entry) => this.#rows.get(entry).item.contains(target));
      if (found) this.#stopAt(found);
    });
  }

  /** `all` the documents, newest first; `chosen` is on the screen. */
  show(all, chosen) {
    this.#all = all;
    this.#chosen = chosen;
    const kept = new Set(all);
    for (const [entry, row] of this.#rows) {
      if (kept.has(entry)) continue;
      row.item.remove();
      this.#rows.delete(entry);
      this.#picks.delete(entry);
    }
    by("tools").hidden = all.length < 2;
    this.#list.dataset.many = String(all.length > 1);
    this.#arrange();
  }

  /** Gives the list the focus; what chooses files, if the list is empty. */
  focus() {
    (this.#rows.get(this.#stop)?.button ?? by("files")).focus();
  }

  /** One document has changed. */
  update(entry) {
    const row = this.#rows.get(entry);
    if (!row) return;
    this.#fill(row, entry);
    if (by("kind").value !== "all") this.#arrangeSoon();
    else this.dispatchEvent(new Event("pick")); // what can be done with it may have changed
  }

  /** Once for all documents that change at the same time. */
  #arrangeSoon() {
    if (this.#soon) return;
    this.#soon = true;
    queueMicrotask(() => {
      this.#soon = false;
      this.#arrange();
    });
  }

  /** Brings the rows into the order that is asked for, without those that are filtered out. */
  #arrange() {
    const few = this.#all.length < 2;
    const words = few ? "" : by("filter").value.trim().toLowerCase();
    const kind = KINDS[few ? "all" : by("kind").value];
    const found = this.#all.filter((entry) => pathOf(entry).toLowerCase().includes(words) && kind(entry));
    this.shown = ORDERS[by("order").value](found);
    const rows = this.shown.map((entry) => this.#rows.get(entry) ?? this.#make(entry));
    const kept = new Set(rows.map(({ item }) => item));
    for (const item of [...this.#list.children]) if (!kept.has(item)) item.remove();
    rows.forEach(({ item }, index) => {
      if (this.#list.children[index] !== item) this.#list.insertBefore(item, this.#list.children[index] ?? null);
    });
    for (const entry of this.shown) this.#mark(entry);
    if (!this.shown.includes(this.#stop)) {
      this.#stopAt(this.shown.includes(this.#chosen) ? this.#chosen : this.shown[0] ?? null);
    }
    by("none").hidden = !this.#all.length || this.shown.length > 0;
    this.#pick();
  }

  #pick() {
    this.picked = this.shown.filter((entry) => this.#picks.has(entry));
    by("all").checked = this.picked.length > 0 && this.picked.length === this.shown.length;
    by("all").indeterminate = this.picked.length > 0 && !by("all").checked;
    this.dispatchEvent(new Event("pick"));
  }

  #mark(entry) {
    const { button, box } = this.#rows.get(entry);
    button.setAttribute("aria-current", String(entry === this.#chosen));
    box.checked = this.#picks.has(entry);
  }

  #stopAt(entry) {
    for (const [one, index] of [[this.#stop, -1], [entry, 0]]) {
      const row = this.#rows.get(one);
      if (row) row.button.tabIndex = row.box.tabIndex = index;
    }
    this.#stop = entry;
  }

  #rove(event) {
    const at = this.shown.indexOf(this.#stop);
    const to = step(UP_AND_DOWN, event.key, at, this.shown.length);
    if (to === null) return;
    event.preventDefault();
    const row = this.#rows.get(this.shown[to]);
    (event.target === this.#rows.get(this.#stop).box ? row.box : row.button).focus();
  }

  #make(entry) {
    const make = (name, properties) => Object.assign(document.createElement(name), properties);
    const item = make("li");
    const box = make("input", { type: "checkbox", className: "pick", tabIndex: -1 });
    const button = make("button", { type: "button", className: "open", tabIndex: -1 });
    const file = make("span", { className: "file", textContent: entry.name, title: pathOf(entry), lang: "" });
    const folder = make("span", { className: "folder", textContent: entry.folder, hidden: !entry.folder, lang: "" });
    const line = make("span", { className: "line" });
    const state = make("span", { className: "state" });
    const time = make("span", { className: "further" });
    const about = make("time");
    const bar = make("progress");
    say(box, "list.pick", { name: entry.name }, "label");
    const progress = make("span");
    progress.append(state, time);
    line.append(progress, about);
    button.append(file, folder, line, bar);
    button.onclick = () => this.#choose(entry);
    box.onchange = () => {
      this.#picks[box.checked ? "add" : "delete"](entry);
      this.#pick();
    };
    item.append(box, button);
    const row = { item, button, box, state, time, about, bar };
    this.#rows.set(entry, row);
    this.#fill(row, entry);
    return row;
  }

  #fill(row, entry) {
    const { job, upload } = entry;
    row.item.dataset.stage = stage(entry);
    say(row.state, ...describe(entry));
    const time = duration(entry);
    if (time) say(row.time, ...time);
    else hush(row.time);
    if (job) this.#date(row.about, job.createTime);
    else if (entry.file) say(row.about, "list.size", { size: { bytes: entry.file.size } });
    const progress = job?.extractProgress;
    row.bar.hidden = ended(entry);
    say(row.bar, "list.progress", { name: entry.name }, "label");
    if (upload?.state === "sending") {
      row.bar.max = 1;
      row.bar.value = upload.share;
    } else if (progress) {
      row.bar.max = progress.totalPages;
      row.bar.value = job.docparser.pages.done + job.docparser.pages.failed;
    } else {
      row.bar.removeAttribute("value");
    }
  }

  #date(element, moment) {
    if (element.dateTime === moment) return;
    element.dateTime = moment;
    say(element, "list.sent", { moment: new Date(moment) });
  }
}
