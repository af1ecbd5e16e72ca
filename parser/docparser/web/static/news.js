// SPDX-License-Identifier: Apache-2.0
// Progress for those who hear the page: the begin, each quarter and the end of a document, not each of its pages.

import { say } from "./languages.js";
import { describe, ended } from "./stages.js";

const END = 5;
const live = document.getElementById("news");
const told = new Map(); // id of a document -> how far it was when it was told

/** Says what is to be heard, once the reader is silent. */
export const tell = (key, values) => say(live, key, values);

/** Tells how far a document is, if that is new. What had ended before this visit is no news; what was chosen in it is,
 * also where it has ended before anything was heard of it. */
export function follow(entry) {
  if (!entry.job) return;
  const now = stage(entry);
  const isNew = told.has(entry.id) ? now > told.get(entry.id) : entry.file || now < END;
  told.set(entry.id, now);
  if (isNew) tell("news", { name: entry.name, state: describe(entry) });
}

function stage(entry) {
  if (ended(entry)) return END;
  const { pages } = entry.job.docparser;
  const total = entry.job.extractProgress?.totalPages;
  return total ? 1 + Math.floor((3 * (pages.done + pages.failed)) / total) : 0;
}
