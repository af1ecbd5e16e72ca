// SPDX-License-Identifier: Apache-2.0
// The documents of this browser: it stores the ids of their jobs, and watches each job until it ends.

import * as api from "./api.js";

const REMEMBERED = "docparser.jobs";
const MOST = 30;

export class Documents extends EventTarget {
  /** id -> `{id, name, job, pages: Map(number -> {state, error})}`, newest first. */
  list = [];
  #watching = new Map();

  /** Documents of earlier visits; those that the service has forgotten go. */
  async restore() {
    const known = JSON.parse(localStorage.getItem(REMEMBERED) ?? "[]");
    this.list = known.map(({ id, name }) => ({ id, name, job: null, pages: new Map() }));
    this.#changed();
    await Promise.all(this.list.map((document) => this.follow(document)));
  }

  find(id) {
    return this.list.find((document) => document.id === id);
  }

  async add(file, settings) {
    const idempotencyKey = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    const id = await api.submit(file, { ...settings, idempotencyKey });
    const document = { id, name: file.name, job: null, pages: new Map() };
    this.list.unshift(document);
    this.list.splice(MOST);
    this.#changed();
    this.follow(document).catch((error) => this.#lost(error));
    return document;
  }

  /** Watches a document's job until it ends. */
  async follow(document) {
    this.#watching.get(document.id)?.abort();
    const control = new AbortController();
    this.#watching.set(document.id, control);
    const on = {
      page: (page) => {
        document.pages.set(page.page, page);
        this.#changed(document, page.page);
      },
      job: (job) => {
        document.job = job;
        this.#changed(document);
      },
    };
    try {
      await api.watch(document.id, on, control.signal);
    } catch (error) {
      if (error.status === 404) this.forget(document);
      else throw error;
    }
  }

  forget(document) {
    this.#watching.get(document.id)?.abort();
    this.list = this.list.filter((other) => other !== document);
    this.#changed();
  }

  #lost(error) {
    this.dispatchEvent(new CustomEvent("trouble", { detail: error }));
  }

  #changed(document = null, page = null) {
    localStorage.setItem(REMEMBERED, JSON.stringify(this.list.map(({ id, name }) => ({ id, name }))));
    this.dispatchEvent(new CustomEvent("change", { detail: { document, page } }));
  }
}

/** A document's state, as the key of a text and its values. */
export function describe({ job }) {
  if (!job) return ["state.unknown"];
  const { pages, cancelled } = job.docparser;
  const progress = job.extractProgress;
  if (cancelled) return ["state.cancelled"];
  if (job.state === "failed") return ["state.failed"];
  if (job.state === "done" && !pages.failed) return ["state.done", { count: pages.done }];
  if (job.state === "done") return ["state.partly", { read: pages.done, count: progress.totalPages }];
  if (job.docparser.waitsFor) return ["state.paused"];
  if (!progress) return ["state.waiting"];
  return ["state.progress", { read: pages.done + pages.failed, count: progress.totalPages }];
}

export const ended = (document) => ["done", "failed"].includes(document.job?.state);
