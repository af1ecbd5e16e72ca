// SPDX-License-Identifier: Apache-2.0
// Words that are sought, and words that are selected in a text, on the picture of their page.

const entries = new WeakMap(); // row -> the page's entry
const PLACED = "place";

/** The page that a row shows. */
export const keep = (row, entry) => entries.set(row, entry);

/** Marks the words on the picture of a row; those of one block if its `index` is named. */
export function mark(row, words, index = null) {
  const picture = row.querySelector(".sheetpage");
  for (const old of picture.querySelectorAll(`.${PLACED}`)) old.remove();
  const entry = entries.get(row);
  if (!entry?.places || !words || !picture.querySelector("img")) return;
  const { width, height, parsing_res_list: blocks } = entry.prunedResult;
  const ids = new Map(blocks.map((block, at) => [block.block_id, at]));
  for (const said of entry.places) {
    const at = ids.get(said.block_id);
    if (index !== null && at !== index) continue;
    for (const [left, top, right, bottom] of found(said, blocks[at]?.block_content ?? "", words)) {
      const place = Object.assign(document.createElement("span"), { className: PLACED });
      place.setAttribute("aria-hidden", "true");
      place.style.left = `${(100 * left) / width}%`;
      place.style.top = `${(100 * top) / height}%`;
      place.style.width = `${(100 * (right - left)) / width}%`;
      place.style.height = `${(100 * (bottom - top)) / height}%`;
      picture.append(place);
    }
  }
}

/** The boxes of the words in a block. */
function found({ lines, words: single, cells }, content, words) {
  if (cells) return cells.filter(({ text }) => plain(text).includes(words)).map(({ bbox }) => bbox);
  const [text, places] = [plain(content), [...(lines ?? []), ...(single ?? [])]];
  const hits = [];
  for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) hits.push([at, at + words.length]);
  const offset = offsets(content);
  return places.filter(({ start, end }) => hits.some(([first, last]) => offset(start) < last && first < offset(end))).map(({ bbox }) => bbox);
}

/** As it is compared, every sign at its place: İ is the only letter whose lower case is longer. */
export const plain = (text) => text.replaceAll(/\s/g, " ").replaceAll("İ", "i").toLowerCase();

/** From places in Unicode characters, as the service counts, to those in JavaScript's. */
function offsets(content) {
  const signs = [...content];
  if (signs.length === content.length) return (at) => at;
  const ends = [0];
  for (const sign of signs) ends.push(ends.at(-1) + sign.length);
  return (at) => ends[at];
}

/** Shows what is selected in the text of a block on its picture; `sought()` are the words that are marked else. */
export function connect(sheets, sought) {
  let row = null;
  document.addEventListener("selectionchange", () => {
    const selection = getSelection();
    const begin = selection.anchorNode;
    const at = (begin instanceof Element ? begin : begin?.parentElement)?.closest(".prose [data-block]");
    const words = at && sheets.contains(at) ? plain(selection.toString()).trim() : "";
    if (row && (!words || row !== at.closest(".row"))) mark(row, sought());
    row = words ? at.closest(".row") : null;
    if (row) mark(row, words, Number(at.dataset.block));
  });
}
