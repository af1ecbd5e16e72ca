// SPDX-License-Identifier: Apache-2.0
// The list of documents.

import { describe, ended } from "./documents.js";
import { say } from "./languages.js";

export class Sidebar {
  #list = document.getElementById("documents");
  #rows = new Map();
  #choose;

  constructor(choose) {
    this.#choose = choose;
  }

  show(documents, chosen) {
    for (const [id, row] of this.#rows) {
      if (!documents.some((document) => document.id === id)) {
        row.item.remove();
        this.#rows.delete(id);
      }
    }
    documents.forEach((document, index) => {
      const row = this.#rows.get(document.id) ?? this.#make(document);
      if (this.#list.children[index] !== row.item) this.#list.insertBefore(row.item, this.#list.children[index] ?? null);
      this.#fill(row, document, document === chosen);
    });
  }

  #make(entry) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    const file = Object.assign(document.createElement("span"), { className: "file", textContent: entry.name, title: entry.name, lang: "" });
    const line = Object.assign(document.createElement("span"), { className: "line" });
    const state = document.createElement("span");
    const sent = document.createElement("time");
    const bar = document.createElement("progress");
    line.append(state, sent);
    button.append(file, line, bar);
    button.onclick = () => this.#choose(entry);
    item.append(button);
    const row = { item, button, line, state, sent, bar };
    this.#rows.set(entry.id, row);
    return row;
  }

  #fill(row, entry, chosen) {
    row.button.setAttribute("aria-current", String(chosen));
    say(row.state, ...describe(entry));
    if (entry.job) this.#date(row.sent, entry.job.createTime);
    row.line.classList.toggle("failed", entry.job?.state === "failed" && !entry.job.docparser.cancelled);
    const progress = entry.job?.extractProgress;
    row.bar.hidden = ended(entry);
    say(row.bar, "list.progress", { name: entry.name }, "label");
    if (progress) {
      row.bar.max = progress.totalPages;
      row.bar.value = entry.job.docparser.pages.done + entry.job.docparser.pages.failed;
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
