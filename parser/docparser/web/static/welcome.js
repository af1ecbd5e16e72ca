// SPDX-License-Identifier: Apache-2.0
// The empty page: what the service reads, how much of it and how long it keeps it, and a page to try it with.

import * as api from "./api.js";
import { say } from "./languages.js";

const by = (id) => document.getElementById(id);
const DOCUMENTS = ["PDF"];

/** `take(file)` gets the sample. Shown once the service has answered; returns its limits. */
export async function connect(take, onTrouble) {
  by("sample").onclick = () => api.sample().then(take).catch(onTrouble);
  const { formats, limits } = await api.capabilities();
  const pictures = formats.documents.filter((name) => !DOCUMENTS.includes(name));
  say(by("formats-read"), "welcome.formats", { pictures: pictures.join(", ") });
  // The rest of a mebibyte is for what comes with a file.
  say(by("limits"), "welcome.limits", { size: { bytes: limits.bodyMib * 1e6 }, count: limits.pages });
  say(by("kept"), "welcome.kept", { count: limits.jobKeepHours });
  by("welcome").hidden = false;
  return limits;
}
