// SPDX-License-Identifier: Apache-2.0
// Light or dark: as the system has it, or as chosen here.

import { say } from "./languages.js";
import { Remembered } from "./remembered.js";

const remembered = new Remembered("theme");
const THEMES = ["auto", "light", "dark"];

/** Makes `button` go through the themes. */
export function connect(button) {
  const chosen = () => THEMES.find((name) => name === remembered.get()) ?? "auto";
  const show = () => {
    if (chosen() === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen();
    for (const icon of button.querySelectorAll("[data-theme]")) icon.toggleAttribute("hidden", icon.dataset.theme !== chosen());
    for (const place of ["label", "title"]) say(button, `theme.${chosen()}`, {}, place);
  };
  button.onclick = () => {
    remembered.set(THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length]);
    show();
  };
  show();
}
