// SPDX-License-Identifier: Apache-2.0
// The menu of files that a result can be had as.

import * as api from "./api.js";
import { say, text } from "./languages.js";
import { connect as connectMenu } from "./menu.js";
import { part } from "./stages.js";

/** The service's formats in the menu's order; each has a text `download.FORMAT`. */
export const FORMATS = ["md", "html", "pdf", "docx", "xlsx", "chunks", "json", "zip"];
const KEEP_MS = 60_000; // how long the browser may take to begin with the file

/** `entry()`: the document on the screen. `onTrouble(error)` hears of what cannot be had, `onSeveral(entry)` that a
 * document is wanted in several formats. */
export function connect(menu, entry, onTrouble, onSeveral) {
  const close = connectMenu(menu);
  const offered = Object.fromEntries(FORMATS.map((format) => [format, () => save(entry(), format).catch(onTrouble)]));
  for (const [format, act] of Object.entries({ ...offered, several: () => onSeveral(entry()) })) {
    const button = Object.assign(document.createElement("button"), { type: "button" });
    button.dataset.format = format;
    say(button, `download.${format}`);
    button.onclick = () => {
      close();
      act();
    };
    menu.lastElementChild.append(button);
  }
}

async function save(entry, format) {
  const { blob, name } = await fetched(entry, format);
  offer(blob, name);
}

/** A document in a format, `{blob, name}`. The name says if pages are missing, as few formats have a place for it. */
export async function fetched(entry, format, signal) {
  const some = part(entry);
  const { blob, name } = await api.download(entry.id, format, signal);
  return { blob, name: some ? name.replace(/(?=\.(chunks\.)?\w+$)/, ` (${text("download.part", some)})`) : name };
}

/** Makes the browser keep a file. */
export function offer(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEEP_MS);
}
