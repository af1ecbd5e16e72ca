// SPDX-License-Identifier: Apache-2.0
// A page's blocks as harmless elements: text as text, tables and Markdown sanitised by DOMPurify, formulas by KaTeX.

import markdownit from "./vendor/markdown-it/markdown-it.esm.min.mjs";
import DOMPurify from "./vendor/dompurify/purify.es.mjs";
import { Formulas } from "./formulas.js";
import { say } from "./languages.js";
import { parts } from "./parts.js";
import { cutSpans, nameHeads } from "./tables.js";

const reader = markdownit({ html: true }); // tables come as HTML
reader.renderer.rules.list_item_open = (tokens, at, options, env, self) => {
  if (tokens[at].info) tokens[at].attrSet("value", tokens[at].info); // a list may begin at any number, and leave some out
  return self.renderToken(tokens, at, options);
};
const ALLOWED = {
  ALLOWED_TAGS: ("a b blockquote br caption code col colgroup dd del div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i " +
    "img li ol p pre s small span strong sub sup table tbody td tfoot th thead tr u ul").split(" "),
  ALLOWED_ATTR: ["href", "src", "alt", "title", "colspan", "rowspan", "width", "value"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
// The page's policy refuses inline styles, so a class replaces the one that matters.
const CENTRED = /(<(?:div|p|figure)\b[^<>]*?)\sstyle=(["'])\s*text-align:\s*center;?\s*\2/gi;

/** A fragment of a page's entry, whose elements say their block's number. `pictures`: path -> address; other pictures
 * are not loaded. */
export async function render(entry, pictures) {
  const formulas = new Formulas();
  const fragment = document.createDocumentFragment();
  for (const part of parts(entry, pictures)) {
    const piece = document.createDocumentFragment();
    piece.append(...written(part, formulas, pictures));
    for (const element of piece.children) element.dataset.block = part.index;
    fragment.append(piece);
  }
  level(fragment);
  await formulas.draw(fragment);
  return fragment;
}

/** The words of a page as `render` shows them, but formulas as LaTeX. */
export const words = (entry) => [...parts(entry, {})].map(wordsOf).join("\n");

function wordsOf({ kind, text = "", rows }) {
  if (kind === "chart") return rows.flat().join(" ");
  const html = { markdown: () => reader.render(text), html: () => text }[kind]?.();
  return html ? sanitised(html.replaceAll(/<(?=t[dh]\b|br\b)/gi, " <")).textContent : text;
}

function written(part, formulas, pictures) {
  if (part.exact) formulas = new Formulas(part);
  switch (part.kind) {
    case "markdown":
      return finished(sanitised(reader.render(formulas.takeOut(part.text))), pictures).childNodes;
    case "html":
      return withFormulas(finished(sanitised(part.text), pictures, part.now, part.head), formulas).childNodes;
    case "chart":
      return finished(table(part.rows, formulas), pictures).childNodes;
    case "picture":
      return [picture(pictures[part.path])];
  }
  const text = formulas.takeOut(part.text);
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  switch (part.kind) {
    case "heading":
      return [element(`h${part.level}`, lines.join(" "))];
    case "caption":
      return [Object.assign(element("div", lines.join(" ")), { className: "center" })];
    case "list": {
      const paragraph = document.createElement("p");
      paragraph.append(...lines.flatMap((line, at) => (at ? [document.createElement("br"), line] : [line])));
      return [paragraph];
    }
    case "code":
      return [element("pre", text)];
    default:
      return lines.map((line) => element("p", line));
  }
}

const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });

function picture(address) {
  const image = Object.assign(document.createElement("img"), { loading: "lazy", src: address });
  say(image, "content.picture", {}, "alt");
  const box = Object.assign(document.createElement("div"), { className: "center" });
  box.append(image);
  return box;
}

function table(rows, formulas) {
  const root = document.createDocumentFragment();
  const whole = root.appendChild(document.createElement("table"));
  for (const [at, cells] of rows.entries()) {
    whole.insertRow().append(...cells.map((cell) => element(at ? "td" : "th", formulas.takeOut(cell))));
  }
  return root;
}

function sanitised(html) {
  const marked = html.replace(CENTRED, '$1 title="\ue002centre"');
  return DOMPurify.sanitize(marked.replace(/\sstyle=("[^"]*"|'[^']*')/gi, ""), ALLOWED);
}

/** With the formulas in each text taken out. */
function withFormulas(root, formulas) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) walker.currentNode.data = formulas.takeOut(walker.currentNode.data);
  return root;
}

/** `piece` with our pictures, safe links and bounded tables. Until then it belongs to the sanitiser's document, where
 * nothing is loaded. `now`: a picture's path -> the one that it has now; `head`: rows of the first table's head. */
function finished(piece, pictures, now = (path) => path, head = 0) {
  for (const element of piece.querySelectorAll('[title="\ue002centre"]')) {
    element.removeAttribute("title");
    element.classList.add("center");
  }
  for (const image of piece.querySelectorAll("img")) {
    const address = pictures[now(image.getAttribute("src"))];
    if (address) {
      image.src = address;
      image.loading = "lazy";
      if (!image.alt) say(image, "content.picture", {}, "alt");
    } else {
      image.replaceWith(image.alt ? `[${image.alt}]` : "");
    }
  }
  for (const link of piece.querySelectorAll("a")) {
    const target = URL.parse?.(link.getAttribute("href") ?? "") ?? null;
    if (target && ["http:", "https:", "mailto:"].includes(target.protocol)) {
      link.rel = "noopener noreferrer";
      link.target = "_blank";
    } else {
      link.removeAttribute("href");
    }
  }
  cutSpans(piece);
  for (const [at, table] of piece.querySelectorAll("table").entries()) nameHeads(table, at ? 0 : head);
  for (const table of piece.querySelectorAll("table")) {
    const box = Object.assign(document.createElement("div"), { className: "tablebox" });
    table.replaceWith(box);
    box.append(table);
  }
  return piece;
}

/** The document's headings stand below the page's own two, for those who go by headings, and no level is left out. */
function level(fragment) {
  let above = 2;
  for (const heading of fragment.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    above = Math.min(Number(heading.localName[1]) + 2, above + 1);
    heading.setAttribute("aria-level", above);
  }
}
