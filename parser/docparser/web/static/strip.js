// SPDX-License-Identifier: Apache-2.0
// The pages of a document: one button each, which are one stop of the Tab key, steps to the previous and the next, and a
// number to be typed where there are many.

import { say } from "./languages.js";
import { LEFT_AND_RIGHT, step } from "./rove.js";

const by = (id) => document.getElementById(id);
const MANY = 10;

export class Strip {
  #numbers = [];
  #chosen = null;
  #go;

  /** `go(number)` is called with the page that is asked for. */
  constructor(go) {
    this.#go = go;
    by("previous").onclick = () => this.step(-1);
    by("next").onclick = () => this.step(1);
    by("strip").onclick = (event) => event.target.dataset.page && go(Number(event.target.dataset.page));
    by("strip").onkeydown = (event) => this.#rove(event);
    by("jump").onchange = ({ target }) => {
      const number = Number(target.value);
      if (this.#numbers.includes(number)) go(number);
      else target.value = this.#chosen;
    };
  }

  /** `pages`: number -> `{state}`; `chosen` is on the screen. */
  show(pages, chosen) {
    const strip = by("strip");
    this.#numbers = [...pages.keys()].sort((one, other) => one - other);
    while (strip.children.length > this.#numbers.length) strip.lastChild.remove();
    this.#numbers.forEach((number, index) => {
      const button = strip.children[index]?.firstChild ?? this.#add(strip);
      const { state } = pages.get(number);
      button.tabIndex = number === chosen ? 0 : -1;
      if (Number(button.dataset.page) !== number || button.dataset.state !== state) { // of thousands, most are as they were
        Object.assign(button.dataset, { page: number, state });
        say(button, "page.number", { number });
        say(button, `page.${state}`, { number }, "label");
      }
      if (number === chosen) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    });
    const at = this.#numbers.indexOf(chosen);
    by("previous").disabled = at <= 0;
    by("next").disabled = at < 0 || at === this.#numbers.length - 1;
    for (const one of [by("previous"), strip, by("next")]) one.hidden = this.#numbers.length < 2;
    by("jump").hidden = this.#numbers.length < MANY;
    if (document.activeElement !== by("jump")) by("jump").value = chosen;
    if (chosen !== this.#chosen) strip.querySelector('[aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.#chosen = chosen;
  }

  #rove(event) {
    const to = step(LEFT_AND_RIGHT, event.key, this.#numbers.indexOf(this.#chosen), this.#numbers.length);
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation(); // the arrows turn pages everywhere
    this.#go(this.#numbers[to]);
    by("strip").children[to].firstChild.focus();
  }

  step(by_) {
    const next = this.#numbers[this.#numbers.indexOf(this.#chosen) + by_];
    if (next !== undefined) this.#go(next);
  }

  #add(strip) {
    const item = document.createElement("li");
    item.append(Object.assign(document.createElement("button"), { type: "button" }));
    strip.append(item);
    return item.firstChild;
  }
}
