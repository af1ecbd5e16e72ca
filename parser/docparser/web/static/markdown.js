// SPDX-License-Identifier: Apache-2.0
// Markdown of a stranger as harmless elements: read by markdown-it, sanitised by DOMPurify, formulas by KaTeX.

import markdownit from "./vendor/markdown-it/markdown-it.esm.min.mjs";
import DOMPurify from "./vendor/dompurify/purify.es.mjs";
import { Formulas } from "./formulas.js";
import { say } from "./languages.js";
import { cutSpans } from "./tables.js";

const reader = markdownit({ html: true }); // tables come as HTML
const ALLOWED = {
  ALLOWED_TAGS: ("a b blockquote br caption code col colgroup dd del div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i " +
    "img li ol p pre s small span strong sub sup table tbody td tfoot th thead tr u ul").split(" "),
  ALLOWED_ATTR: ["href", "src", "alt", "title", "colspan", "rowspan", "width"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
// The page's policy refuses inline styles, so a class replaces the one that matters.
const CENTRED = /(<(?:div|p|figure)\b[^<>]*?)\sstyle=(["'])\s*text-align:\s*center;?\s*\2/gi;

/** A fragment. `pictures`: path in the text -> address; other pictures are not loaded. */
export async function render(text, pictures) {
  const formulas = new Formulas();
  const html = reader.render(formulas.takeOut(text)).replace(CENTRED, '$1 title="\ue002centre"');
  const fragment = DOMPurify.sanitize(html.replace(/\sstyle=("[^"]*"|'[^']*')/gi, ""), ALLOWED);
  for (const element of fragment.querySelectorAll('[title="\ue002centre"]')) {
    element.removeAttribute("title");
    element.classList.add("center");
  }
  for (const image of fragment.querySelectorAll("img")) {
    const address = pictures[image.getAttribute("src")];
    if (address) {
      image.src = address;
      image.loading = "lazy";
      if (!image.alt) say(image, "content.picture", {}, "alt");
    } else {
      image.replaceWith(image.alt ? `[${image.alt}]` : "");
    }
  }
  for (const link of fragment.querySelectorAll("a")) {
    const target = URL.parse?.(link.getAttribute("href") ?? "") ?? null;
    if (target && ["http:", "https:", "mailto:"].includes(target.protocol)) {
      link.rel = "noopener noreferrer";
      link.target = "_blank";
    } else {
      link.removeAttribute("href");
    }
  }
  cutSpans(fragment);
  level(fragment);
  for (const table of fragment.querySelectorAll("table")) {
    const box = document.createElement("div");
    box.className = "tablebox";
    table.replaceWith(box);
    box.append(table);
  }
  await formulas.draw(fragment);
  return fragment;
}

/** The document's headings stand below the page's own two, for those who go by headings, and no level is left out. */
function level(fragment) {
  let above = 2;
  for (const heading of fragment.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    above = Math.min(Number(heading.localName[1]) + 2, above + 1);
    heading.setAttribute("aria-level", above);
  }
}
