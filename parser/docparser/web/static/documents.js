// SPDX-License-Identifier: Apache-2.0
// The documents of this browser, of all its tabs: it stores the ids of their jobs and learns how far each job is. With a
// key, the service's own list of the key's jobs is added, so that another machine shows them too; it is not stored here,
// where the key is not either.
//
// A browser opens six connections to a host, for all tabs together. So the document that is read has the only stream,
// in the window that has the focus. Other windows that are seen ask for its news now and then, one after the other. One
// request asks about all other documents, and few are sent at once.

import * as api from "./api.js";

const REMEMBERED = "docparser.jobs";
const ROUND_MS = 2000;
const SENT_AT_ONCE = 2;
const FETCHED = 1000;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const LATER = [408, 425, 429]; // of the answers 4xx, those that are others another time

const remembered = () => JSON.parse(localStorage.getItem(REMEMBERED) ?? "[]");
const made = ({ id = null, name, folder = "", file = null }) => ({ id, name, folder, file, job: null, pages: new Map(), upload: null });

export class Documents extends EventTarget {
  /** `{id, name, folder, file, job, pages: Map(number -> {state, error}), upload}`, newest first. Until the service has it, `id`
   * is null and `upload` is `{state: "waiting"|"sending"|"failed", share, error}`; `file` is what was chosen here. */
  list = [];
  #stream = null; // `{document, control}`
  #asking = false;
  #sending = 0;
  #forgotten = new Set();

  /** Documents of earlier visits and of other tabs; those that the service has forgotten go. */
  restore() {
    this.#merge();
    addEventListener("storage", ({ key }) => key === REMEMBERED && this.#merge());
  }

  /** Adds the newest jobs of the key, if there is one. */
  async fetch() {
    if (!api.key.get()) return;
    let left = FETCHED;
    for await (const job of api.list()) {
      if (!left--) break; // programs may use the key too
      if (this.#forgotten.has(job.jobId)) continue;
      const known = this.find(job.jobId);
      const document = known ?? { ...made({ id: job.jobId, name: job.fileName }), fetched: true };
      document.job = job;
      if (!known) this.list.push(document);
    }
    const moment = ({ id, job }) => (job ? Date.parse(job.createTime) : id ? 0 : Infinity);
    this.list.sort((one, other) => moment(other) - moment(one) || 0);
    this.#changed();
    this.#ask();
  }

  find(id) {
    return this.list.find((document) => document.id === id);
  }

  /** Lists the files at once and sends them, few at a time; returns their documents. */
  add(files, settings) {
    const added = files.map((file) => made({ name: file.name, folder: file.folder, file }));
    for (const document of added) {
      const idempotencyKey = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
      document.upload = { state: "waiting", share: 0, error: null, settings: { ...settings, idempotencyKey } };
      this.list.unshift(document);
    }
    this.#changed();
    this.#send();
    return added;
  }

  /** Sends a document again that could not be sent. */
  resend(document) {
    document.upload.state = "waiting";
    this.#changed(document);
    this.#send();
  }

  /** Ends a document: its sending, or its job. */
  async cancel(document) {
    if (!document.upload) return api.cancel(document.id);
    const { upload } = document;
    // The service may have it already, and only its answer be under way.
    if (upload.state === "sending" && upload.share === 1) upload.unwanted = true;
    else upload.control?.abort();
    this.forget(document);
  }

  /** Whether documents would be lost with this tab. */
  get unsent() {
    return this.list.some(({ upload }) => upload && upload.state !== "failed");
  }

  /** A job has begun again. */
  follow(document) {
    if (this.#streams(document)) this.read(document, true);
    this.#changed(document);
    this.#ask();
  }

  /** Streams the news of the one document that is read, all of its pages first; null: of none. `again`: it goes on. */
  read(document, again = false) {
    if (this.#stream?.document === document && !again) return;
    this.#stream?.control.abort();
    const known = document && (!document.id || (ended(document) && complete(document) && !again));
    this.#stream = document && !known ? { document, control: new AbortController() } : null;
    if (this.#stream) this.#watch(this.#stream).catch((error) => this.#lost(error));
    this.#ask();
  }

  /** The window got the focus or lost it. */
  refocus() {
    if (this.#stream && !ended(this.#stream.document)) this.read(this.#stream.document, true);
  }

  forget(document) {
    if (this.#streams(document)) this.read(null);
    this.#forgotten.add(document.id);
    this.list = this.list.filter((other) => other !== document);
    this.#store();
    this.#changed();
  }

  /** Sends what waits to be sent, the first that came first. */
  #send() {
    for (const document of this.list.toReversed()) {
      if (this.#sending === SENT_AT_ONCE) return;
      if (document.upload?.state === "waiting") this.#post(document).catch((error) => this.#lost(error));
    }
  }

  async #post(document) {
    const { upload, file } = document;
    Object.assign(upload, { state: "sending", share: 0, error: null, control: new AbortController() });
    this.#sending++;
    this.#changed(document);
    const sent = (share) => {
      upload.share = share;
      this.#changed(document);
    };
    try {
      const id = await api.submit(file, upload.settings, sent, upload.control.signal);
      if (upload.unwanted) return await api.remove(id).catch(() => api.cancel(id));
      Object.assign(document, { id, upload: null });
      this.#store();
      this.#changed(document);
      this.#ask();
    } catch (error) {
      if (upload.unwanted || error.name === "AbortError") return;
      Object.assign(upload, { state: "failed", error });
      if (error.status >= 400 && error.status < 500 && !LATER.includes(error.status)) this.forget(document);
      else this.#changed(document);
      this.dispatchEvent(new CustomEvent("unsent", { detail: document }));
    } finally {
      this.#sending--;
      this.#send();
    }
  }

  async #watch({ document, control }) {
    const on = {
      page: (page) => document.pages.set(page.page, page), // news of the job always follows
      job: (job) => this.#learned(document, job),
    };
    try {
      await api.watch(document.id, on, control.signal, document, globalThis.document.hasFocus());
    } catch (error) {
      this.#failed(document, error);
    }
  }

  /** Asks about all documents that are at work, until none is. */
  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    try {
      for (let open; (open = this.list.filter((document) => document.id && !ended(document))).length; ) {
        await this.#look(open.filter((document) => !this.#streams(document)));
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

  async #look(documents) {
    try {
      const jobs = new Map((await api.states(documents.map(({ id }) => id))).map((job) => [job.jobId, job]));
      for (const document of documents) {
        const job = jobs.get(document.id);
        if (!job) this.#gone(document);
        else if (JSON.stringify(job) !== JSON.stringify(document.job)) this.#learned(document, job); // most are as they were
      }
    } catch (error) {
      // A service that is away comes back; what it refuses, it refuses again.
      if (error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
    }
  }

  #learned(document, job) {
    document.job = job;
    this.#changed(document);
  }

  #failed(document, error) {
    if (error.status === 404) this.#gone(document);
    else throw error;
  }

  /** The service keeps documents for some time only. */
  #gone(document) {
    if (!this.list.includes(document)) return; // it was removed here
    this.forget(document);
    this.dispatchEvent(new CustomEvent("gone", { detail: document }));
  }

  #lost(error) {
    this.dispatchEvent(new CustomEvent("trouble", { detail: error }));
  }

  /** Takes what other tabs have added, and lets go what they have removed. */
  #merge() {
    const known = remembered().filter(({ id }) => !this.#forgotten.has(id));
    const ids = new Set(known.map(({ id }) => id));
    const kept = this.list.filter(({ id, fetched }) => !id || fetched || ids.has(id));
    this.list = [...known.filter(({ id }) => !this.find(id)).map(made), ...kept];
    this.#changed();
    this.#ask();
  }

  /** Other tabs may have stored documents since this one looked. What came with the key goes with it. */
  #store() {
    const others = remembered().filter(({ id }) => !this.find(id) && !this.#forgotten.has(id));
    const own = this.list.filter(({ id, fetched }) => id && !fetched).map(({ id, name, folder }) => ({ id, name, folder }));
    localStorage.setItem(REMEMBERED, JSON.stringify([...own, ...others]));
  }

  #changed(document = null) {
    this.dispatchEvent(new CustomEvent("change", { detail: document }));
  }
}

/** Whether it is known of all pages how they ended. */
const complete = ({ pages }) => pages.size && [...pages.values()].every(({ state }) => state === "done" || state === "failed");

/** How far a document is, one word for a sign, a colour and a filter. */
export function stage({ job, upload }) {
  if (upload) return upload.state;
  if (!job) return "waiting";
  const { pages, cancelled, waitsFor } = job.docparser;
  if (cancelled) return "cancelled";
  if (job.state === "failed") return "failed";
  if (job.state === "done") return pages.failed ? "partly" : "done";
  return waitsFor || !job.extractProgress ? "waiting" : "running";
}

/** A document's state, as the key of a text and its values. */
export function describe(document) {
  const { job, upload } = document;
  if (upload?.state === "sending") return ["state.sending", { share: Math.floor(100 * upload.share) }];
  if (upload) return [upload.state === "failed" ? "state.unsent" : "state.waiting"];
  if (!job) return [document.file ? "state.waiting" : "state.unknown"];
  const { pages, waitsFor } = job.docparser;
  const count = job.extractProgress?.totalPages;
  switch (stage(document)) {
    case "cancelled":
      return ["state.cancelled"];
    case "failed":
      return ["state.failed"];
    case "done":
      return ["state.done", { count: pages.done }];
    case "partly":
      return ["state.partly", { read: pages.done, count }];
  }
  if (waitsFor) return ["state.paused"];
  return count === undefined ? ["state.waiting"] : ["state.progress", { read: pages.done + pages.failed, count }];
}

/** How long a document took, or about how long it will take; null where nobody knows. As `describe`. */
export function duration({ job }, now = Date.now()) {
  const { startTime, endTime, totalPages } = job?.extractProgress ?? {};
  if (!startTime) return null;
  const began = Date.parse(startTime);
  if (endTime) return ["time.took", { time: inTime(Date.parse(endTime) - began) }];
  const { done, failed } = job.docparser.pages;
  const read = done + failed;
  if (!read || read === totalPages || job.docparser.waitsFor) return null;
  return ["time.left", { time: inTime(((now - began) / read) * (totalPages - read)) }];
}

const inTime = (ms) =>
  ms < MINUTE_MS ? ["time.seconds", { count: Math.ceil(ms / 1000) }] : ["time.minutes", { count: Math.round(ms / MINUTE_MS) }];

/** When the service deletes a document that it keeps for so many hours after its end; null: not yet known. As `describe`. */
export function deletion({ job }, keptHours) {
  const end = job?.extractProgress?.endTime;
  return end && keptHours ? ["time.deleted", { moment: new Date(Date.parse(end) + keptHours * HOUR_MS) }] : null;
}

export const ended = ({ job }) => ["done", "failed"].includes(job?.state);

/** Whether failed pages of a document can be read again. */
export function retriable(document) {
  return ended(document) && !document.job.docparser.cancelled && document.job.docparser.pages.failed > 0;
}
