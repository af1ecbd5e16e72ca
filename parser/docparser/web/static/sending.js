// SPDX-License-Identifier: Apache-2.0
// Files on their way to the service, few at a time, the first that came first. What the service refuses is refused for
// good. While it is full or away all files wait: one of them tries again, later and later, until one is taken.

import * as api from "./api.js";

const AT_ONCE = 2;
const FIRST_MS = 5000;
const LONGEST_MS = 5 * 60_000;
const LONGEST_ASKED_MS = 60 * 60_000; // a quota may say that it is there again next month
const KEY_NEEDED = 401;

/** A file that was moved or changed after it was chosen. */
export class Unreadable extends Error {}

export class Sending {
  #waiting = [];
  #sending = new Set();
  #pausing = false; // nothing is sent until `resume`
  #timer = null;
  #trouble = null; // why the last file was not taken, until one is
  #failures = 0; // since then
  #on;
  largest = Infinity; // bytes of a file that the service takes

  /** `on.change(document)` hears how far a file is, `on.sent(document, id)` the job that it has become, and
   * `on.refused(document, error)` that it never will be one. */
  constructor(on) {
    this.#on = on;
  }

  /** `{error, count}` while the service takes nothing and so many files wait, else null. */
  get held() {
    const count = this.#waiting.length + this.#sending.size;
    return this.#trouble && count ? { error: this.#trouble, count } : null;
  }

  add(documents) {
    this.#waiting = [...this.#waiting, ...documents];
    this.resume();
  }

  /** Ends the sending of these documents. */
  end(documents) {
    const ended = new Set(documents);
    this.#waiting = this.#waiting.filter((document) => !ended.has(document));
    for (const { upload } of documents) {
      // The service may have it already, and only its answer be under way.
      if (upload.state === "sending" && upload.share === 1) upload.unwanted = true;
      else upload.control?.abort();
    }
  }

  /** Tries now, whatever pause there is. */
  resume() {
    clearTimeout(this.#timer);
    this.#pausing = false;
    this.#next();
  }

  #next() {
    while (!this.#pausing && this.#waiting.length && this.#sending.size < (this.#trouble ? 1 : AT_ONCE)) this.#send(this.#waiting.shift());
  }

  async #send(document) {
    const { upload, file } = document;
    const { signal } = Object.assign(upload, { state: "sending", share: 0, control: new AbortController() }).control;
    const sent = (share) => {
      upload.share = share;
      this.#on.change(document);
    };
    this.#sending.add(document);
    this.#on.change(document);
    try {
      await null; // who adds files has them before one is refused
      if (file.size > this.largest) throw new api.ApiError(413);
      const id = await api.submit(file, upload.settings, sent, signal);
      if (!this.#pausing) {
        this.#trouble = null;
        this.#failures = 0;
      }
      if (upload.unwanted) await api.remove(id).catch(() => api.cancel(id));
      else this.#on.sent(document, id);
    } catch (error) {
      if (!upload.unwanted) await this.#failed(document, error, signal);
    } finally {
      this.#sending.delete(document);
      this.#next();
    }
  }

  async #failed(document, error, signal) {
    const gone = error.status === 0 && !(await readable(document.file)); // to the browser this is a connection that broke
    if (signal.aborted) return;
    if (gone) return this.#on.refused(document, new Unreadable());
    if (error.refused && error.status !== KEY_NEEDED) return this.#on.refused(document, error);
    Object.assign(document.upload, { state: "waiting", error });
    this.#sending.delete(document);
    this.#waiting.push(document); // behind the others: what is wrong may be wrong with this file alone
    this.#pause(error);
    this.#on.change(document);
  }

  /** Who gives a key or sends again ends the pause; without a key nothing else does. */
  #pause(error) {
    this.#trouble = error;
    if (this.#pausing) return;
    this.#pausing = true;
    if (error.status === KEY_NEEDED) return;
    const ms = error.waitMs ? Math.min(error.waitMs, LONGEST_ASKED_MS) : Math.min(FIRST_MS * 2 ** this.#failures++, LONGEST_MS);
    this.#timer = setTimeout(() => this.resume(), ms);
  }
}

/** Whether a file is still as it was when it was chosen. */
const readable = (file) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);
