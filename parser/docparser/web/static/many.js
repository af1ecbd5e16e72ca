// SPDX-License-Identifier: Apache-2.0
// The buttons for many documents: for those of the list that are picked, or for all that have ended.

import { say } from "./languages.js";
import { ended, heldUp, retriable } from "./stages.js";

const by = (id) => document.getElementById(id);
const open = (entry) => !ended(entry);
const readable = ({ job }) => job?.docparser.pages.done > 0;

/** `sidebar` has the documents that are picked. */
export function connect(sidebar, actions) {
  const remove = async (entries) => {
    if (!(await agreed(entries.length))) return;
    await actions.remove(entries);
    if (document.activeElement === document.body) sidebar.focus(); // the button that had it is gone
  };
  const buttons = {
    "many-download": [readable, (entries) => actions.download(entries)],
    "many-cancel": [open, (entries) => actions.cancel(entries)],
    "many-retry": [(entry) => retriable(entry) || heldUp(entry), (entries) => actions.again(entries)],
    "many-remove": [ended, remove],
  };
  const show = () => {
    const { picked } = sidebar;
    by("many").hidden = !picked.length;
    by("clear").hidden = picked.length > 0 || !sidebar.shown.some(ended);
    say(by("picked"), picked.length ? "list.picked" : "list.all", { count: picked.length });
    for (const [id, [fits]] of Object.entries(buttons)) by(id).hidden = !picked.some(fits);
  };
  sidebar.addEventListener("pick", show);
  for (const [id, [fits, act]] of Object.entries(buttons)) by(id).onclick = () => act(sidebar.picked.filter(fits));
  by("clear").onclick = () => remove(sidebar.shown.filter(ended));
}

/** Asks whether so many documents are to be removed. */
export async function agreed(count) {
  const dialog = by("removedialog");
  say(by("removetext"), "remove.many", { count });
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((closed) => (dialog.onclose = closed));
  return dialog.returnValue === "yes";
}
