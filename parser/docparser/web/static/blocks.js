// SPDX-License-Identifier: Apache-2.0
// The blocks of a page: boxes over its picture, and the piece of text that belongs to each.

import { knows, say } from "./languages.js";
import { rove, UP_AND_DOWN } from "./rove.js";

const KINDS = [
  [/title/, "title"],
  [/table/, "table"],
  [/image|chart|seal|figure(?!_title)/, "picture"],
  [/formula|algorithm/, "formula"],
  [/header|footer|number|footnote|aside/, "margin"],
];

export const kind = (label) => KINDS.find(([pattern]) => pattern.test(label))?.[1] ?? "text";
const SVG = "http://www.w3.org/2000/svg";
// A label that has no text is shown as the layout model has it.
const inWords = (label) => (knows(`label.${label}`) ? [`label.${label}`] : label.replaceAll("_", " "));

/** One button per block, placed in per cent of the page. Together they are one stop of the Tab key. */
export function boxes(pruned) {
  return pruned.parsing_res_list.map((block, index) => {
    const [left, top, right, bottom] = block.block_bbox;
    const box = document.createElement("button");
    box.type = "button";
    box.className = "box";
    box.dataset.index = index;
    box.tabIndex = index ? -1 : 0;
    box.dataset.kind = kind(block.block_label);
    box.style.left = `${(100 * left) / pruned.width}%`;
    box.style.top = `${(100 * top) / pruned.height}%`;
    box.style.width = `${(100 * (right - left)) / pruned.width}%`;
    box.style.height = `${(100 * (bottom - top)) / pruned.height}%`;
    const label = inWords(block.block_label);
    const number = index + 1;
    const tag = document.createElement("span");
    tag.className = "tag";
    if (block.doubtful) {
      box.dataset.doubtful = true;
      say(box, "block.doubtful", { label, number, doubt: doubt(block) }, "label"); // what is seen is in what is heard
      say(tag, "block.tag.doubtful", { label, doubt: doubt(block) });
    } else if (block.source === "page") {
      box.dataset.own = true;
      say(box, "block.own", { label, number }, "label");
      say(tag, "block.tag.own", { label });
    } else {
      say(box, "block", { label, number }, "label");
      say(tag, "block.tag", { label });
    }
    box.append(tag);
    if (!isBox(block.block_polygon_points, block.block_bbox)) {
      box.dataset.outlined = true;
      box.append(drawing([left, top, right - left, bottom - top], [block.block_polygon_points]));
    }
    return box;
  });
}

/** How doubtful a block is, for `say`. */
const doubt = ({ agreement, confidence }) => {
  if (typeof confidence === "number") return ["doubt.share", { share: Math.floor(100 * confidence) }];
  return typeof agreement === "number" ? ["doubt.agreement", { share: Math.floor(100 * agreement) }] : ["doubt.cut"];
};

/** How many blocks are doubtful. */
export const doubts = (pruned) => pruned.parsing_res_list.filter((block) => block.doubtful).length;

/** The outlines of the texts that were spotted on the page, or null; also where each of them is a block with a box. */
export function spotted(pruned) {
  const whole = pruned.parsing_res_list.some((block) => block.block_label === "spotting");
  const outlines = whole && pruned.spotting_res?.rec_polys;
  return outlines?.length ? drawing([0, 0, pruned.width, pruned.height], outlines) : null;
}

/** Outlines in pixels of the page, drawn over the part of it that `area` (left, top, width, height) names. */
function drawing(area, outlines) {
  const svg = document.createElementNS(SVG, "svg");
  svg.classList.add("outline");
  svg.setAttribute("viewBox", area.map(Number).join(" "));
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const points of outlines) {
    const polygon = document.createElementNS(SVG, "polygon");
    polygon.setAttribute("points", points.map((point) => point.map(Number).join(",")).join(" "));
    svg.append(polygon);
  }
  return svg;
}

/** Whether the outline, if there is one, says no more than the box. */
function isBox(points, [left, top, right, bottom]) {
  return !points || (points.length === 4 && points.every(([x, y]) => [left, right].includes(x) && [top, bottom].includes(y)));
}

/** A sign before what is doubtful in `article`, whose pieces say their blocks. */
export function markDoubtful(article, pruned) {
  for (const [index, block] of pruned.parsing_res_list.entries()) {
    const element = block.doubtful && article.querySelector(`[data-block="${index}"]`);
    if (element) (element.matches("ul, ol") && element.querySelector("li") || element).prepend(mark(block));
  }
}

/** A sign before a doubtful piece of text, which is read aloud as what it means. */
function mark(block) {
  const sign = Object.assign(document.createElement("span"), { className: "doubt", textContent: "?" });
  sign.setAttribute("role", "img");
  say(sign, "text.doubtful", { doubt: doubt(block) }, "label");
  say(sign, "text.doubtful", { doubt: doubt(block) }, "title");
  return sign;
}

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const ofBlock = (index) => `:is(.box[data-index="${index}"], [data-block="${index}"])`;

/** Highlights a box and its text in both columns of a row. `to`: the column that is scrolled to it. */
function light(row, index, on, to = null) {
  for (const element of row.querySelectorAll(ofBlock(index))) element.dataset.lit = on;
  const aim = on && to ? row.querySelector(`${to} ${ofBlock(index)}`) : null;
  aim?.scrollIntoView({ block: "nearest", behavior: calm.matches ? "instant" : "smooth" });
}

/** Leads to a block's box and text; returns whether the page has it. */
export function lead(row, index) {
  const box = row.querySelector(`.box[data-index="${index}"]`);
  box?.focus();
  return Boolean(box);
}

/** Highlights a box and its text when either is pointed at or focused; the keyboard leads from one to the other, the
 * pointer moves nothing. `choose` is called when a box is pressed. */
export function link(sheets, choose) {
  const handle = (on, focus) => ({ target }) => {
    const box = target.closest(".box");
    const element = box ?? target.closest("[data-block]");
    if (element) light(element.closest(".row"), element.dataset.index ?? element.dataset.block, on, focus ? (box ? ".reading" : ".picture") : null);
  };
  sheets.addEventListener("pointerover", handle(true, false));
  sheets.addEventListener("pointerout", handle(false, false));
  sheets.addEventListener("focusin", handle(true, true));
  sheets.addEventListener("focusout", handle(false, true));
  sheets.addEventListener("click", ({ target }) => {
    const box = target.closest(".box");
    if (!box) return;
    choose();
    light(box.closest(".row"), box.dataset.index, true, ".reading"); // the text may have been hidden until now
  });
  sheets.addEventListener("keydown", (event) => {
    const row = event.target.closest(".row");
    if (row) rove([...row.querySelectorAll(".box")], event, UP_AND_DOWN);
  });
}
