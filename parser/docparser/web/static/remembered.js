// SPDX-License-Identifier: Apache-2.0
// What this browser keeps for the page. Several installations under paths of one host share its storage, so a name has the
// installation's path; at the root it has none.

const path = new URL(".", document.baseURI).pathname;
const place = path === "/" ? "" : path;

/** The name `docparser.NAME` of this installation alone. */
export const own = (name) => "docparser." + name + place;

/** One text, "" if there is none. `storage`: `localStorage`, or `sessionStorage`, which is the tab's alone. What the
 * browser does not take, because it may not or has no room, lasts as long as the page. */
export class Remembered {
  #storage;
  #here = null;

  constructor(name, storage = "localStorage") {
    this.name = own(name);
    this.#storage = storage;
  }

  get() {
    if (this.#here !== null) return this.#here;
    try {
      return globalThis[this.#storage].getItem(this.name) ?? "";
    } catch {
      return "";
    }
  }

  /** Returns whether the browser keeps it. */
  set(value) {
    try {
      globalThis[this.#storage].setItem(this.name, value);
      this.#here = null;
    } catch {
      this.#here = value;
    }
    return this.#here === null;
  }
}
