// SPDX-License-Identifier: Apache-2.0
// What a block of a page shows, as docparser/convert/parts.py has it: text is text, whatever signs are in it. Markdown
// is read only of a VLM that was asked to write it.

const DECORATION = ["number", "footnote", "header", "header_image", "footer", "footer_image", "aside_text"];
const TITLES = { doc_title: 1, paragraph_title: 2, abstract_title: 2, reference_title: 2, content_title: 2 };
const CAPTIONS = ["table_title", "figure_title", "chart_title"];
const PICTURES = {
  image: "use_ocr_for_image_block",
  header_image: "use_ocr_for_image_block",
  footer_image: "use_ocr_for_image_block",
  chart: "use_ocr_for_image_block",
  seal: "use_seal_recognition",
};
const HEADING = /^(#{1,7})\s+(.+)$/gm;
const NUMBERED = /^(\d{1,3}(?:\.\d{1,3}){0,3})[.\s]/;
const BEGINS_TABLE = /^(?:\s|<\/?(?:div|html|body|center)\b[^<>]*>)*<table\b/i;
const PLACE = /_box((?:_-?[0-9]+){4})\.[a-z]+$/;
const NEVER_FORMATTED = ["text", "ocr", "vertical_text", "reference_content", "table"];
const FORMATTED = new RegExp(
  '^#{1,7} |^<div style="text-align: center;">(?=[^]*</div>\\n?$)|</div>\\n?$|<img src="[^"]*" alt="Image" width="-?\\d+%" />|^!\\[\\]\\([^)]*\\)', "g");
const OURS = /[\ue000-\ue003]/g; // marks of formulas

/** Yields `{index, kind, ...}` for each block that shows something: `heading` (`level`), `markdown`, `html` of a table,
 * (`head`: how many rows of the first are its head), `chart` (`rows`), `picture` (`path`), `caption`, `list`, `code`, `text`; their words are `text`, `exact` if these are the file's own. */
export function* parts({ prunedResult: pruned, markdown, outline, tableHeads = [] }, pictures) {
  const settings = pruned.model_settings ?? {};
  const ignored = settings.markdown_ignore_labels ?? DECORATION;
  const levels = new Map([...markdown.text.matchAll(HEADING)].map(([, signs, text]) => [key(text), signs.length]));
  const outlined = outline && new Map(outline.map(({ block_id: id, level }) => [id, level]));
  const heads = new Map(tableHeads.map(({ block_id: id, rows }) => [id, rows]));
  const paths = new Paths(pictures);
  const blocks = pruned.parsing_res_list;
  for (const [index, block] of blocks.entries()) {
    const label = block.block_label;
    if (ignored.includes(label) || label === "formula_number") continue;
    let text = content(block, settings);
    const exact = block.source === "page" && block.agreement === null; // the VLM was not asked, so no sign is a formula's
    if (label in PICTURES) {
      const path = paths.of(block.block_bbox);
      if (path) yield { index, kind: "picture", path };
      if (path && !settings[PICTURES[label]]) continue;
    } else if (label === "display_formula" || label === "formula") {
      text = numbered(text, blocks[index + 1], markdown.text, settings);
    }
    if (!text) continue;
    if (label in TITLES && outlined) {
      const level = outlined.get(block.block_id); // none: the document's title, printed again
      yield { index, kind: level ? "heading" : "text", text, level, exact };
    } else if (label in TITLES) {
      const number = ["doc_title", "paragraph_title"].includes(label) && NUMBERED.exec(text)?.[1];
      const byNumber = number ? TITLES.paragraph_title + number.split(".").length - 1 : TITLES[label];
      const said = number && label === "doc_title" ? null : levels.get(key(text)); // a title with a section's number is a section
      yield { index, kind: "heading", text, level: Math.min(said ?? byNumber, 6), exact };
    } else if (settings.prompt_label === "document") yield { index, kind: "markdown", text };
    else if ((label === "table" || label === "chart") && BEGINS_TABLE.test(text)) {
      yield { index, kind: "html", text, exact, head: heads.get(block.block_id) ?? 0, now: (path) => paths.now(path) };
    }
    else if (label === "chart" && rows(text)) yield { index, kind: "chart", rows: rows(text) };
    else yield { index, kind: CAPTIONS.includes(label) ? "caption" : { content: "list", algorithm: "code" }[label] ?? "text", text, exact };
  }
}

function content(block, settings) {
  const text = (block.block_content ?? "").replace(OURS, "").trim();
  return settings.format_block_content && !NEVER_FORMATTED.includes(block.block_label) ? text.replace(FORMATTED, "").trim() : text;
}

/** What a title and its heading in PaddleX's Markdown have in common: it takes full stops from titles' ends. */
const key = (text) => text.replace(/\s+/g, "").replace(/\.+$/, "").toLowerCase();

/** The formula with its number where the Markdown has it (`showFormulaNumber`). */
function numbered(formula, after, markdown, settings) {
  if (after?.block_label !== "formula_number") return formula;
  const tag = ` \\tag*{${content(after, settings)}}`;
  return markdown.includes(tag) ? `$$${formula.replaceAll("$$", "")}${tag}$$` : formula;
}

/** A chart is answered as lines of cells between `|`, the header first. */
function rows(text) {
  const found = text.split("\n").filter((line) => line.trim()).map((line) => line.split("|").map((cell) => cell.trim()));
  return found.length > 1 && found[0].length > 1 ? found : null;
}

/** The paths of a page's pictures by their boxes, which stay in the names that jobs give them. */
class Paths {
  #pictures;
  #byPlace = new Map();

  constructor(pictures) {
    this.#pictures = pictures;
    for (const path of Object.keys(pictures)) {
      const place = PLACE.exec(path)?.[1];
      if (place) this.#byPlace.set(place, [...(this.#byPlace.get(place) ?? []), path]);
    }
  }

  /** Of pages that were joined, several pictures may have one box; each is asked for once, in order. */
  of(box) {
    const same = this.#byPlace.get(box.map((side) => `_${Math.trunc(side)}`).join(""));
    return same && (same.length > 1 ? same.shift() : same[0]);
  }

  now(path) {
    return path in this.#pictures ? path : this.#byPlace.get(PLACE.exec(path)?.[1])?.[0] ?? path;
  }
}
