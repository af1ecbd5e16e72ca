// SPDX-License-Identifier: Apache-2.0
// A menu that opens below its button: closed by Escape, by a click elsewhere, and when the focus leaves it.

/** `menu` is a `details`; returns what closes it and gives its button the focus. */
export function connect(menu) {
  const opener = menu.querySelector("summary");
  const close = () => {
    menu.open = false;
    opener.focus();
  };
  addEventListener("click", (event) => menu.contains(event.target) || (menu.open = false));
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => event.key === "Escape" && menu.open && close());
  return close;
}
