// SPDX-License-Identifier: Apache-2.0
// The API key, if the service asks for one.

import * as api from "./api.js";
import { say } from "./languages.js";

const by = (id) => document.getElementById(id);
const KEY = /^[ -~]+$/; // what a header can carry
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
    complain(api.key.get() && "key.refused");
    dialog.onclose = () => {
      asking = null;
      const given = entered();
      if (given) api.key.set(given);
      refused = !given;
      done(Boolean(given));
    };
    dialog.showModal();
  }));
}

const entered = () => by("keyvalue").value.trim();

/** Says in the dialog what is wrong with a key; nothing without words. */
function complain(words) {
  by("keywrong").hidden = !words;
  if (words) say(by("keywrong"), words);
}

const giveUp = () => (by("keyvalue").value = "");

/** `onGiven()` is called when the user has given a key by himself. */
export function connect(onGiven) {
  api.onKeyNeeded(ask);
  by("keycancel").onclick = () => {
    giveUp();
    by("keydialog").close();
  };
  by("keydialog").oncancel = giveUp;
  by("keydialog").querySelector("form").onsubmit = (event) => {
    if (KEY.test(entered())) return;
    event.preventDefault();
    complain("key.signs");
  };
  by("key").onclick = async () => {
    wanted();
    if (await ask()) onGiven();
  };
}
