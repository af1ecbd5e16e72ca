// SPDX-License-Identifier: Apache-2.0
// Formulas in Markdown: found before it is read, drawn by KaTeX after it is sanitised.

const DISPLAY = /\$\$(.+?)\$\$|\\\[(.+?)\\\]/gs;
const INLINE = /(?<![\\$\w])\$([^$\n]{1,2000}?)\$(?![\d$])|\\\((.+?)\\\)/g;
// What a price has not: "$5 and $10" is no formula, "$ x $" and "$n^2$" are.
const MATHEMATICAL = /[\\^_={}+<>|*/]|^\s*[A-Za-z]\s*$/;
const MARK = /\ue000(\d+)\ue001/;
const SETTINGS = { throwOnError: false, trust: false, strict: "ignore", maxSize: 20, maxExpand: 200 };

let katex;
const load = () => (katex ??= import("./vendor/katex/katex.min.js").then(() => globalThis.katex));

export class Formulas {
  #found = [];

  /** `text` with a mark in place of each formula. */
  takeOut(text) {
    const marked = text.replace(/[\ue000\ue001]/g, "").replace(DISPLAY, (_, a, b) => this.#keep(a ?? b, true));
    let result = "";
    let done = 0;
    INLINE.lastIndex = 0;
    for (let match; (match = INLINE.exec(marked)); ) {
      if (match[1] !== undefined && !MATHEMATICAL.test(match[1])) {
        INLINE.lastIndex = match.index + 1; // its closing sign may open the next one
        continue;
      }
      result += marked.slice(done, match.index) + this.#keep(match[1] ?? match[2], false);
      done = match.index + match[0].length;
    }
    return result + marked.slice(done);
  }

  #keep(latex, display) {
    this.#found.push({ latex: latex.trim(), display });
    return `\ue000${this.#found.length - 1}\ue001`;
  }

  /** Draws the formulas in place of their marks, which are in text nodes only: sanitising left no others. */
  async draw(root) {
    if (!this.#found.length) return;
    const engine = await load().catch(() => null);
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) if (MARK.test(walker.currentNode.data)) nodes.push(walker.currentNode);
    for (const node of nodes) {
      const pieces = node.data.split(/\ue000(\d+)\ue001/);
      node.replaceWith(...pieces.map((piece, index) => (index % 2 ? this.#element(engine, this.#found[piece]) : piece)));
    }
  }

  #element(engine, formula) {
    if (!formula) return "";
    const element = document.createElement("span");
    element.className = formula.display ? "display" : "inline";
    if (engine && formula.latex.length <= 4000) {
      engine.render(formula.latex, element, { ...SETTINGS, displayMode: formula.display });
    } else {
      element.textContent = formula.latex;
    }
    return element;
  }
}
