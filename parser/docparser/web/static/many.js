// SPDX-License-Identifier: Apache-2.0
// What is done with many documents at once: with those of the list that are picked, or with all that have ended. One
// document in several formats is an archive too.

import * as api from "./api.js";
import { ended, retriable } from "./documents.js";
import { FORMATS, offer } from "./downloads.js";
import { failure } from "./failures.js";
import { say } from "./languages.js";
import { Zip } from "./zip.js";

const by = (id) => document.getElementById(id);
const PART = 1 << 30; // bytes and files of an archive; what is more goes into the next one
const MOST_FILES = 60_000;
const USUAL = ["md", "docx"];

const unsent = ({ upload }) => upload?.state === "failed";
const finished = (entry) => ended(entry) || unsent(entry);
const open = (entry) => !finished(entry);
const readable = ({ job }) => job?.docparser.pages.done > 0;

/** `sidebar` has the picked ones, `documents` all of them; `onTrouble(failure)` hears of what does not work. */
export function connect(sidebar, documents, onTrouble) {
  const each = async (entries, act) => {
    for (const entry of entries) await act(entry).catch((error) => onTrouble(failure(error, entry.name)));
  };
  const remove = async (entries) => {
    if (await agreed(entries.length)) await each(entries, (entry) => drop(entry, documents));
  };
  const actions = {
    "many-download": [readable, (entries) => download(entries, onTrouble)],
    "many-cancel": [open, (entries) => each(entries, (entry) => documents.cancel(entry))],
    "many-retry": [(entry) => retriable(entry) || unsent(entry), (entries) => each(entries, (entry) => again(entry, documents))],
    "many-remove": [finished, remove],
  };
  const show = () => {
    const { picked } = sidebar;
    by("many").hidden = !picked.length;
    by("clear").hidden = picked.length > 0 || !sidebar.shown.some(finished);
    say(by("picked"), picked.length ? "list.picked" : "list.all", { count: picked.length });
    for (const [id, [fits]] of Object.entries(actions)) by(id).hidden = !picked.some(fits);
  };
  sidebar.addEventListener("pick", show);
  for (const [id, [fits, act]] of Object.entries(actions)) by(id).onclick = () => act(sidebar.picked.filter(fits));
  by("clear").onclick = () => remove(sidebar.shown.filter(finished));
  for (const format of FORMATS) by("zipformats").append(choice(format));
}

/** Reads the failed pages of a document again, or sends it again. */
export async function again(entry, documents) {
  if (unsent(entry)) return documents.resend(entry);
  await api.retry(entry.id);
  entry.job.state = "running"; // until the service says how far it is
  documents.follow(entry);
}

/** Removes a document here and from the service. */
export async function drop(entry, documents) {
  if (entry.id) {
    await api.remove(entry.id).catch((error) => {
      if (error.status !== 404) throw error;
    });
  }
  documents.forget(entry);
}

/** Asks whether so many documents are to be removed. */
async function agreed(count) {
  const dialog = by("removedialog");
  say(by("removetext"), "remove.many", { count });
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((closed) => (dialog.onclose = closed));
  return dialog.returnValue === "yes";
}

function choice(format) {
  const label = Object.assign(document.createElement("label"), { className: "check" });
  const box = document.createElement("input");
  Object.assign(box, { type: "checkbox", value: format, checked: USUAL.includes(format) });
  label.append(box, " ", document.createElement("span"));
  say(label.lastChild, `download.${format}`);
  return label;
}

/** Asks for formats and puts the results into archives. */
export async function download(entries, onTrouble) {
  const dialog = by("zipdialog");
  const control = new AbortController();
  const busy = (on) => {
    by("zipformats").disabled = by("zipstart").disabled = on;
    by("zipbar").hidden = !on;
  };
  busy(false);
  say(by("ziptext"), "zip.about", { count: entries.length });
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
        const { blob, name } = await api.download(entry.id, format, signal);
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
