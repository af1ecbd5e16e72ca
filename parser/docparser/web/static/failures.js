// SPDX-License-Identifier: Apache-2.0
// What went wrong, for a person: a sentence in the page's language, and the service's own words, which are English.

import { knows, say } from "./languages.js";

/** A failure, `{about, says: [key, values], words}`, of an error; `about`: what it concerns, in the user's own words. */
export function failure(error, about) {
  const known = error.status === undefined ? "error.page" : `error.${error.status}`;
  const key = knows(known) ? known : "error.other";
  return { about, says: [key, { status: error.status }], words: error.message };
}

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
  if (words) line.append(" ", Object.assign(document.createElement("span"), { className: "words", textContent: words, lang: "en" }));
  return line;
}
