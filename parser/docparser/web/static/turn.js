// SPDX-License-Identifier: Apache-2.0
// A page that lies on its side or stands on its head: its picture is turned here and read as a document of its own.

import { say } from "./languages.js";
import { connect as menu } from "./menu.js";

const by = (id) => document.getElementById(id);
const QUARTERS = { right: 1, left: 3, over: 2 };
const QUALITY = 0.92;

/** `page()`: `{row, name, number}` of what is read; `onTurned(file)` gets it turned. */
export function connect(page, onTurned, onTrouble) {
  const close = menu(by("turn"));
  for (const [name, quarters] of Object.entries(QUARTERS)) {
    const button = Object.assign(document.createElement("button"), { type: "button" });
    button.dataset.turn = name;
    say(button, `turn.${name}`);
    button.onclick = () => {
      close();
      turned(page(), quarters).then(onTurned).catch(onTrouble);
    };
    by("turn").lastElementChild.append(button);
  }
}

async function turned({ row, name, number }, quarters) {
  const image = row?.querySelector(".sheetpage > img");
  if (!image) throw new Error("This page has no picture yet.");
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const canvas = document.createElement("canvas");
  Object.assign(canvas, quarters % 2 ? { width: height, height: width } : { width, height });
  const context = canvas.getContext("2d");
  context.translate(canvas.width / 2, canvas.height / 2);
  context.rotate((quarters * Math.PI) / 2);
  context.drawImage(image, -width / 2, -height / 2);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", QUALITY));
  if (!blob) throw new Error(`The browser draws no picture of ${width} x ${height} pixels.`);
  return new File([blob], `${name.replace(/\.[^./]*$/, "")}_${number}_turned.jpg`, { type: blob.type });
}
