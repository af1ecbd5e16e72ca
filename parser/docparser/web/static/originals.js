// SPDX-License-Identifier: Apache-2.0
// Pages as they came: of a picture that was chosen here the file itself, else as the service draws them.

import * as api from "./api.js";
import { say } from "./languages.js";

const DRAWN = new Set(["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/avif"]);

export class Originals {
  #last = Promise.resolve(); // one after the other: a browser has few connections, and pages that are read go first

  /** The picture of a page, or null. `entry.originals` becomes the number of pages of the document. */
  async of(entry, number, signal) {
    const before = this.#last;
    const drawn = before.then(() => (signal.aborted ? null : this.#draw(entry, number, signal)));
    this.#last = drawn.catch(() => null);
    return this.#last;
  }

  async #draw(entry, number, signal) {
    let blob = entry.file;
    if (!blob || number > 1 || !DRAWN.has(blob.type)) {
      if (!entry.id) return null;
      const drawn = await api.original(entry.id, number, signal);
      entry.originals = drawn.pages;
      blob = drawn.blob;
    }
    const image = Object.assign(document.createElement("img"), { src: URL.createObjectURL(blob) });
    say(image, "sheet.original", { number }, "alt");
    await image.decode().finally(() => URL.revokeObjectURL(image.src));
    return image;
  }
}
