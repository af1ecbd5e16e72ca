// SPDX-License-Identifier: Apache-2.0
// The API key, if the service asks for one.

import * as api from "./api.js";

const by = (id) => document.getElementById(id);
let asking = null;
let refused = false; // until the user does something that needs a key

/** Whether the user is being asked. */
export const open = () => asking !== null;

/** What the user does now may need a key, so the dialog may open again after a refusal. */
export const wanted = () => (refused = false);

/** Resolves to whether a key was given. `quietly`: no dialog opens; one that is open already may give a key. */
function ask(quietly) {
  by("key").hidden = false;
  if (quietly || refused) return asking ?? false;
  return (asking ??= new Promise((done) => {
    const dialog = by("keydialog");
    by("keyvalue").value = "";
    dialog.onclose = () => {
      asking = null;
      const given = by("keyvalue").value.trim();
      if (given) api.key.set(given);
      refused = !given;
      done(Boolean(given));
    };
    dialog.showModal();
  }));
}

function giveUp() {
  by("keyvalue").value = "";
  by("keydialog").close();
}

api.onKeyNeeded(ask);
by("keycancel").onclick = giveUp;
by("keydialog").oncancel = () => (by("keyvalue").value = "");
by("key").onclick = async () => {
  wanted();
  if (await ask()) location.reload();
};
