// SPDX-License-Identifier: Apache-2.0
// What went wrong, for a person: a sentence in the page's language, and the service's own words, which are English.

import { knows, say } from "./languages.js";
import { Unreadable } from "./sending.js";

// What a file is that the service does not read, by its words (common/file_types.py).
const KINDS = [
  [/a Word document|RTF|OpenDocument text|OFD/, "document"],
  [/Excel/, "workbook"],
  [/PowerPoint/, "slides"],
  [/HEIC/, "photo"],
  [/print it to a PDF/, "print"],
  [/save (it|its pictures) as JPEG/, "picture"],
  [/unpack it/, "archive"],
  [/is empty/, "empty"],
  [/neither an image nor a PDF/, "unknown"],
];

// Why no file is sent for now, by the status of the service's answer.
const HELD = { 401: "held.key", 429: "held.full", 503: "held.full", 507: "held.full" };

/** A failure, `{about, says: [key, values], words}`, of an error; `about`: what it concerns, in the user's own words. */
export function failure(error, about) {
  const known = error.status === undefined ? "error.page" : `error.${error.status}`;
  const key = knows(known) ? known : "error.other";
  return { about, says: [key, { status: error.status }], words: error.message };
}

/** The failure of a file that is not taken. */
export function refusal(error, about) {
  if (error instanceof Unreadable) return unreadable(about);
  const kind = [400, 422].includes(error.status) && KINDS.find(([words]) => words.test(error.message))?.[1];
  return kind ? { about, says: [`refused.${kind}`], words: error.message, quiet: true } : failure(error, about);
}

/** The failure of a file or folder that the browser cannot read. */
export const unreadable = (about) => ({ about, says: ["unreadable"], quiet: true });

/** Why files wait that are to be sent, `{error, count}`. */
export const waiting = ({ error, count }) => ({ says: [HELD[error.status] ?? "held.away", { count }], words: error.message });

/** The sentence `PREFIX.KIND`, or that of `other`; `words` are the service's. */
export const ofKind = (prefix, kind, other) => [knows(`${prefix}.${kind}`) ? `${prefix}.${kind}` : `${prefix}.${other}`];

/** Shows the failures in `element`, which is hidden if there are none. */
export function showIn(element, failures) {
  element.hidden = !failures.length;
  element.replaceChildren(...failures.map(line));
}

function line({ about, says, words }) {
  const line = document.createElement("p");
  if (about) line.append(Object.assign(document.createElement("b"), { className: "about", textContent: about, lang: "" }), " ");
  const sentence = Object.assign(document.createElement("span"), { className: "says" });
  say(sentence, ...says);
  line.append(sentence);
  if (words) line.append(" ", inEnglish(words));
  return line;
}

const inEnglish = (words) => Object.assign(document.createElement("span"), { className: "words", textContent: words, lang: "en" });

const NAMED = 20; // of what has the same failure; more are counted

/** Failures that can be closed, one line for all that say the same; the service's words are behind each. */
export class Problems {
  #element;
  #lines = new Map(); // what is said -> `{names, line}`

  constructor(element) {
    this.#element = element;
  }

  add(trouble) {
    const same = JSON.stringify([trouble.says, trouble.words]);
    const names = this.#lines.get(same)?.names ?? [];
    if (trouble.about) names.push(trouble.about);
    const [first, ...rest] = names;
    const shown = line({ ...trouble, about: first, words: "" });
    shown.dataset.quiet = String(Boolean(trouble.quiet));
    if (rest.length) {
      const others = Object.assign(document.createElement("span"), { className: "others", title: rest.slice(0, NAMED).join("\n") });
      say(others, "problem.others", { count: rest.length });
      shown.querySelector(".about").after(" ", others);
    }
    if (trouble.words) {
      const details = document.createElement("details");
      say(details.appendChild(document.createElement("summary")), "problem.words");
      details.append(inEnglish(trouble.words));
      shown.append(details);
    }
    const close = document.createElement("button");
    Object.assign(close, { type: "button", className: "close quiet", textContent: "×" });
    say(close, "problem.close", {}, "label");
    close.onclick = () => this.#remove(same);
    shown.append(close);
    const before = this.#lines.get(same)?.line;
    if (before) before.replaceWith(shown);
    else this.#element.append(shown);
    this.#lines.set(same, { names, line: shown });
    this.#element.hidden = false;
  }

  clear() {
    for (const same of [...this.#lines.keys()]) this.#remove(same);
  }

  #remove(same) {
    this.#lines.get(same).line.remove();
    this.#lines.delete(same);
    this.#element.hidden = !this.#lines.size;
  }
}
