// SPDX-License-Identifier: Apache-2.0
// The documents of this browser, of all its tabs: it stores the ids of their jobs and learns how far each job is.
//
// A browser opens six connections to a host, for all tabs together. So the document that is read has the only stream of
// this tab, and the others are asked about one after the other.

import * as api from "./api.js";

const REMEMBERED = "docparser.jobs";
const ROUND_MS = 2000;

const remembered = () => JSON.parse(localStorage.getItem(REMEMBERED) ?? "[]");
const made = ({ id, name }) => ({ id, name, job: null, pages: new Map() });

export class Documents extends EventTarget {
  /** id -> `{id, name, job, pages: Map(number -> {state, error})}`, newest first. */
  list = [];
  #stream = null; // `{document, control}`
  #asking = false;
  #forgotten = new Set();

  /** Documents of earlier visits and of other tabs; those that the service has forgotten go. */
  restore() {
    this.#merge();
    addEventListener("storage", ({ key }) => key === REMEMBERED && this.#merge());
  }

  find(id) {
    return this.list.find((document) => document.id === id);
  }

  async add(file, settings) {
    const idempotencyKey = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    const id = await api.submit(file, { ...settings, idempotencyKey });
    const document = made({ id, name: file.name });
    this.list.unshift(document);
    this.#store();
    this.#changed();
    this.#ask();
    return document;
  }

  /** Streams the news of the one document that is read, all of its pages first; null: of none. `again`: it goes on. */
  read(document, again = false) {
    if (this.#stream?.document === document && !again) return;
    this.#stream?.control.abort();
    const known = document && ended(document) && document.pages.size && !again;
    this.#stream = document && !known ? { document, control: new AbortController() } : null;
    if (this.#stream) this.#watch(this.#stream).catch((error) => this.#lost(error));
    this.#ask();
  }

  forget(document) {
    if (this.#streams(document)) this.read(null);
    this.#forgotten.add(document.id);
    this.list = this.list.filter((other) => other !== document);
    this.#store();
    this.#changed();
  }

  async #watch({ document, control }) {
    const on = {
      page: (page) => {
        document.pages.set(page.page, page);
        this.#changed(document, page.page);
      },
      job: (job) => this.#learned(document, job),
    };
    try {
      await api.watch(document.id, on, control.signal);
    } catch (error) {
      this.#failed(document, error);
    }
  }

  /** Asks about each document that is at work, until none is. */
  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    try {
      for (let open; (open = this.list.filter((document) => !ended(document))).length; ) {
        for (const document of open) if (!this.#streams(document)) await this.#look(document);
        await new Promise((done) => setTimeout(done, ROUND_MS));
      }
    } catch (error) {
      this.#lost(error);
    } finally {
      this.#asking = false;
    }
  }

  #streams(document) {
    return this.#stream?.document === document;
  }

  async #look(document) {
    try {
      this.#learned(document, await api.state(document.id));
    } catch (error) {
      // A service that is away comes back; what it refuses, it refuses again.
      if (error.status >= 400 && error.status < 500 && error.status !== 429) this.#failed(document, error);
    }
  }

  #learned(document, job) {
    document.job = job;
    this.#changed(document);
  }

  #failed(document, error) {
    if (error.status === 404) this.forget(document);
    else throw error;
  }

  #lost(error) {
    this.dispatchEvent(new CustomEvent("trouble", { detail: error }));
  }

  /** Takes what other tabs have added, and lets go what they have removed. */
  #merge() {
    const known = remembered().filter(({ id }) => !this.#forgotten.has(id));
    this.list = known.map((entry) => this.find(entry.id) ?? made(entry));
    this.#changed();
    this.#ask();
  }

  /** Other tabs may have stored documents since this one looked. */
  #store() {
    const others = remembered().filter(({ id }) => !this.find(id) && !this.#forgotten.has(id));
    const own = this.list.map(({ id, name }) => ({ id, name }));
    localStorage.setItem(REMEMBERED, JSON.stringify([...own, ...others]));
  }

  #changed(document = null, page = null) {
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
