// SPDX-License-Identifier: Apache-2.0
// The documents of this browser, of all its tabs: it stores the ids of their jobs and learns how far each job is. With a
// key, the service's own list of the key's jobs is added, so that another machine shows them too; it is not stored here,
// where the key is not either.
//
// A browser opens six connections to a host, for all tabs together. So the document that is read has the only stream,
// in the window that has the focus. Other windows that are seen ask for its news now and then, one after the other. One
// request asks about all other documents, and few are sent at once.

import * as api from "./api.js";
import { Remembered } from "./remembered.js";
import { Sending } from "./sending.js";
import { ended } from "./stages.js";

const ROUND_MS = 2000;
const FETCHED = 1000;

const made = ({ id = null, name, folder = "", file = null }) => ({ id, name, folder, file, job: null, pages: new Map(), upload: null });

export class Documents extends EventTarget {
  /** `{id, name, folder, file, job, pages: Map(number -> {state, error}), upload}`, newest first. Until the service has it, `id`
   * is null and `upload` is `{state: "waiting"|"sending", share, error}`, `error` being why it was not taken last time;
   * `file` is what was chosen here. */
  list = [];
  #remembered = new Remembered("jobs");
  #stream = null; // `{document, control}`
  #asking = false;
  #forgotten = new Set();
  #sending = new Sending({
    change: (document) => this.#changed(document),
    sent: (document, id) => {
      Object.assign(document, { id, upload: null });
      this.#store();
      this.#changed(document);
      this.#ask();
    },
    refused: (document, error) => {
      this.forget([document]);
      this.#tell("refused", { document, error });
    },
  });

  /** Documents of earlier visits and of other tabs; those that the service has forgotten go. */
  restore() {
    this.#merge();
    addEventListener("storage", ({ key }) => key === this.#remembered.name && this.#merge());
  }

  /** Adds the newest jobs of the key, if there is one. */
  async fetch() {
    if (!api.key.get()) return;
    const known = new Map(this.list.map((document) => [document.id, document]));
    let left = FETCHED;
    for await (const job of api.list()) {
      if (!left--) break; // programs may use the key too
      if (this.#forgotten.has(job.jobId)) continue;
      const document = known.get(job.jobId) ?? { ...made({ id: job.jobId, name: job.fileName }), fetched: true };
      document.job = job;
      if (!known.has(job.jobId)) this.list.push(document);
    }
    const moment = ({ id, job }) => (job ? Date.parse(job.createTime) : id ? 0 : Infinity);
    this.list.sort((one, other) => moment(other) - moment(one) || 0);
    this.#changed();
    this.#ask();
  }

  /** Lists the files at once and sends them, few at a time; returns their documents. */
  add(files, settings) {
    const added = files.map((file) => made({ name: file.name, folder: file.folder, file }));
    for (const document of added) {
      const idempotencyKey = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
      document.upload = { state: "waiting", share: 0, error: null, settings: { ...settings, idempotencyKey } };
    }
    this.list = [...[...added].reverse(), ...this.list];
    this.#changed();
    this.#sending.add(added);
    return added;
  }

  /** Larger files are refused before they are sent. */
  set largest(bytes) {
    this.#sending.largest = bytes;
  }

  /** Ends the sending of documents, which leave the list. */
  unsend(documents) {
    this.#sending.end(documents);
    this.forget(documents);
  }

  /** Sends what waits, now. */
  resend() {
    this.#sending.resume();
  }

  /** Why files wait that are to be sent, and how many, `{error, count}`; null: none is held up. */
  get held() {
    return this.#sending.held;
  }

  /** Whether documents would be lost with this tab. */
  get unsent() {
    return this.list.some(({ upload }) => upload);
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

  /** Takes documents out of the list. */
  forget(documents) {
    if (!documents.length) return;
    const gone = new Set(documents);
    if (gone.has(this.#stream?.document)) this.read(null);
    for (const { id } of documents) this.#forgotten.add(id);
    this.list = this.list.filter((document) => !gone.has(document));
    if (documents.some(({ id }) => id)) this.#store();
    this.#changed();
  }

  async #watch({ document, control }) {
    const on = {
      page: (page) => document.pages.set(page.page, page), // news of the job always follows
      job: (job) => this.#learned(document, job),
    };
    try {
      await api.watch(document.id, on, control.signal, document, globalThis.document.hasFocus());
    } catch (error) {
      if (error.status !== 404) throw error;
      this.#gone([document]);
    } finally {
      if (this.#stream?.control === control && !ended(document)) this.#stream = null; // `#ask` goes on with it
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
        if (job && JSON.stringify(job) !== JSON.stringify(document.job)) this.#learned(document, job); // most are as they were
      }
      this.#gone(documents.filter(({ id }) => !jobs.has(id)));
    } catch (error) {
      if (api.refuses(error)) throw error; // a service that is away comes back
    }
  }

  #learned(document, job) {
    document.job = job;
    this.#changed(document);
  }

  /** The service keeps documents for some time only. */
  #gone(documents) {
    const listed = new Set(this.list);
    const gone = documents.filter((document) => listed.has(document)); // others were removed here
    this.forget(gone);
    if (gone.length) this.#tell("gone", gone);
  }

  #lost(error) {
    this.#tell("trouble", error);
  }

  /** What this browser remembers, `[{id, name, folder}]`. */
  #stored() {
    try {
      return JSON.parse(this.#remembered.get() || "[]");
    } catch {
      return []; // nothing that this page wrote
    }
  }

  /** Takes what other tabs have added, and lets go what they have removed. */
  #merge() {
    const known = this.#stored().filter(({ id }) => !this.#forgotten.has(id));
    const ids = new Set(known.map(({ id }) => id));
    const kept = this.list.filter(({ id, fetched }) => !id || fetched || ids.has(id));
    const here = new Set(kept.map(({ id }) => id));
    this.list = [...known.filter(({ id }) => !here.has(id)).map(made), ...kept];
    this.#changed();
    this.#ask();
  }

  /** Other tabs may have stored documents since this one looked. What came with the key goes with it. */
  #store() {
    const here = new Set(this.list.map(({ id }) => id));
    const others = this.#stored().filter(({ id }) => !here.has(id) && !this.#forgotten.has(id));
    const own = this.list.filter(({ id, fetched }) => id && !fetched).map(({ id, name, folder }) => ({ id, name, folder }));
    if (!this.#remembered.set(JSON.stringify([...own, ...others]))) this.#tell("unkept");
  }

  /** The whole list has changed, or one document of it. */
  #changed(document = null) {
    this.#tell("change", document);
  }

  #tell(what, detail = null) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }
}

/** Whether it is known of all pages how they ended. */
const complete = ({ pages }) => pages.size && [...pages.values()].every(({ state }) => state === "done" || state === "failed");
