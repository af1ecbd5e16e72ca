// SPDX-License-Identifier: Apache-2.0
// How large the picture of a page is: as wide as its place, or a multiple of that.

import { say } from "./languages.js";

const by = (id) => document.getElementById(id);
const STEPS = [1, 1.5, 2, 3, 4];

/** Connects the buttons. */
export function connect() {
  let at = 0;
  const show = () => {
    by("sheets").style.setProperty("--zoom", STEPS[at]);
    by("sheets").dataset.zoomed = at > 0;
    by("zoomout").disabled = !at;
    by("zoomin").disabled = at === STEPS.length - 1;
    say(by("fit"), "zoom.share", { share: 100 * STEPS[at] });
  };
  const go = (to) => () => {
    at = to();
    show();
  };
  by("zoomout").onclick = go(() => Math.max(at - 1, 0));
  by("zoomin").onclick = go(() => Math.min(at + 1, STEPS.length - 1));
  by("fit").onclick = go(() => 0);
  show();
}
