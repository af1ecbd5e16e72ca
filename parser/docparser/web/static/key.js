// SPDX-License-Identifier: Apache-2.0
// The API key, if the service asks for one.

import * as api from "./api.js";
import { say } from "./languages.js";

const by = (id) => document.getElementById(id);
const KEY = /^[ -~]+$/; // what a header can carry
let asking = null;
let refused = false; // by the user, until he does something that needs a key
let wrong = false; // whether the service does not accept the key that there is
let onGiven = () => {};

/** Whether the user is being asked. */
export const open = () => asking !== null;

/** What the user does now may need a key, so the dialog may open again after a refusal. */
export const wanted = () => (refused = false);

/** Resolves to whether a key was given. `quietly`: no dialog opens; one that is open already may give a key. */
function needed(quietly) {
  by("key").hidden = false;
  wrong = Boolean(api.key.get());
  return quietly || refused ? (asking ?? false) : ask(true);
}

/** Asks in the dialog; `needed`: for something that goes on when there is a key. */
function ask(needed) {
  return (asking ??= new Promise((done) => {
    const dialog = by("keydialog");
    by("keyvalue").value = "";
    complain(wrong && "key.refused");
    dialog.onclose = () => {
      asking = null;
      const given = entered();
      refused = !given;
      if (given) {
        api.key.set(given);
        wrong = false;
        onGiven(needed);
      }
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

/** `given(needed)` hears of a key; `needed`: something asked for it, and goes on by itself. */
export function connect(given) {
  onGiven = given;
  api.onKeyNeeded(needed);
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
  by("key").onclick = () => ask(false);
}
