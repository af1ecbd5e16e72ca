// SPDX-License-Identifier: Apache-2.0
// Many controls that are one stop of the Tab key: the arrow keys move between them.

const FIRST = { Home: () => 0, End: (_, last) => last };
const back = (at) => at - 1;
const on = (at) => at + 1;

export const UP_AND_DOWN = { ArrowUp: back, ArrowDown: on, ...FIRST };
export const LEFT_AND_RIGHT = { ArrowLeft: back, ArrowRight: on, ...FIRST };

/** Where the key leads from the place `at` of `count`; null: the key leads nowhere. */
export function step(keys, key, at, count) {
  if (at < 0 || !(key in keys)) return null;
  return Math.min(Math.max(keys[key](at, count - 1), 0), count - 1);
}

/** Moves the focus among `controls`, whose one has it. Returns whether the key did. */
export function rove(controls, event, keys) {
  const at = controls.indexOf(event.target);
  const to = step(keys, event.key, at, controls.length);
  if (to === null) return false;
  event.preventDefault();
  controls[at].tabIndex = -1;
  controls[to].tabIndex = 0;
  controls[to].focus();
  return true;
}
