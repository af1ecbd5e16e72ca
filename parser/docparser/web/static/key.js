// SPDX-License-Identifier: Apache-2.0
// The API key, if the service asks for one.

import * as api from "./api.js";

const by = (id) => document.getElementById(id);
let asking = null;

/** Whether the user is being asked. */
export const open = () => asking !== null;

/** Resolves to whether a key was given. */
function ask() {
  by("key").hidden = false;
  return (asking ??= new Promise((done) => {
    const dialog = by("keydialog");
    by("keyvalue").value = "";
    dialog.onclose = () => {
      asking = null;
      const given = by("keyvalue").value.trim();
      if (given) api.key.set(given);
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
by("key").onclick = async () => (await ask()) && location.reload();
