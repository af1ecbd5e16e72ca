// SPDX-License-Identifier: Apache-2.0
// The results of many documents in archives, or of one in several formats.

import { fetched, FORMATS, offer } from "./downloads.js";
import { failure } from "./failures.js";
import { say } from "./languages.js";
import { part } from "./stages.js";
import { Zip } from "./zip.js";

const by = (id) => document.getElementById(id);
const PART = 1 << 30; // bytes and files of an archive; what is more goes into the next one
const MOST_FILES = 60_000;
const USUAL = ["md", "docx"];

for (const format of FORMATS) by("zipformats").append(choice(format));

function choice(format) {
  const label = Object.assign(document.createElement("label"), { className: "check" });
  const box = document.createElement("input");
  Object.assign(box, { type: "checkbox", value: format, checked: USUAL.includes(format) });
  label.append(box, " ", document.createElement("span"));
  say(label.lastChild, `download.${format}`);
  return label;
}

/** Asks for formats and puts the results into archives. */
export function ask(entries, onTrouble) {
  const dialog = by("zipdialog");
  const control = new AbortController();
  const busy = (on) => {
    by("zipformats").disabled = by("zipstart").disabled = on;
    by("zipbar").hidden = !on;
  };
  busy(false);
  say(by("ziptext"), "zip.about", { count: entries.length });
  const parts = entries.filter(part).length;
  by("zippart").hidden = !parts;
  say(by("zippart"), "zip.part", { count: parts });
  dialog.onclose = () => control.abort();
  by("zipstart").onclick = async () => {
    const formats = [...by("zipformats").querySelectorAll(":checked")].map(({ value }) => value);
    if (!formats.length) return;
    busy(true);
    await collect(entries, formats, control.signal, onTrouble).catch((error) => onTrouble(failure(error)));
    if (!control.signal.aborted) dialog.close();
  };
  dialog.showModal();
}

async function collect(entries, formats, signal, onTrouble) {
  let zip = new Zip();
  let parts = 0;
  const stem = entries.length > 1 ? "documents" : entries[0].name.replace(/(?<=[^.])\.[^.]*$/, "");
  const save = () => zip.count && offer(zip.blob(), parts++ ? `${stem}-${parts}.zip` : `${stem}.zip`);
  by("zipbar").max = entries.length * formats.length;
  by("zipbar").value = 0;
  for (const entry of entries) {
    const { createTime, extractProgress } = entry.job;
    for (const format of formats) {
      try {
        const { blob, name } = await fetched(entry, format, signal);
        if (zip.count && (zip.size + blob.size > PART || zip.count >= MOST_FILES)) {
          save();
          zip = new Zip();
        }
        await zip.add(name, blob, new Date(extractProgress?.endTime ?? createTime), entry.folder);
      } catch (error) {
        if (signal.aborted) return;
        onTrouble(failure(error, entry.name));
      }
      by("zipbar").value++;
    }
  }
  save();
}
