// SPDX-License-Identifier: Apache-2.0
// What is done with documents: with the one on the screen, or with many of the list.

import * as api from "./api.js";
import * as archive from "./archive.js";
import { failure } from "./failures.js";
import { ended, heldUp, retriable } from "./stages.js";

const TOGETHER = 50; // documents that leave the list at once, which is drawn each time

export class Actions {
  #documents;
  #onTrouble;

  /** `onTrouble(failure)` hears of what does not work. */
  constructor(documents, onTrouble) {
    this.#documents = documents;
    this.#onTrouble = onTrouble;
  }

  /** Ends documents: their sending, or their jobs. */
  async cancel(entries) {
    const jobs = entries.filter(({ upload }) => !upload);
    this.#documents.unsend(entries.filter(({ upload }) => upload));
    await this.#each(jobs, ({ id }) => api.cancel(id));
  }

  /** Tries again what failed of documents; what waits to be sent is sent now. */
  async again(entries) {
    if (entries.some(heldUp)) this.#documents.resend();
    await this.#each(entries.filter(retriable), async (entry) => {
      const { pages } = await api.retry(entry.id); // without opening and joining
      if (!pages && ended({ job: await api.state(entry.id) })) this.#onTrouble({ about: entry.name, says: ["retry.none"] });
      entry.job.state = "running"; // until the service says how far it is
      this.#documents.follow(entry);
    });
  }

  /** Removes documents here and from the service. */
  async remove(entries) {
    for (let at = 0; at < entries.length; at += TOGETHER) {
      this.#documents.forget(await this.#each(entries.slice(at, at + TOGETHER), removeFromService));
    }
  }

  /** Asks for formats and puts the results into archives. */
  download(entries) {
    archive.ask(entries, this.#onTrouble);
  }

  /** Does it with one after the other; returns those with which it could be done. */
  async #each(entries, act) {
    const done = [];
    for (const entry of entries) {
      try {
        await act(entry);
        done.push(entry);
      } catch (error) {
        this.#onTrouble(failure(error, entry.name));
      }
    }
    return done;
  }
}

async function removeFromService({ id }) {
  await api.remove(id).catch((error) => {
    if (error.status !== 404) throw error;
  });
}
