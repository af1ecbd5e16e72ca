// SPDX-License-Identifier: Apache-2.0
// Formulas in Markdown: taken out before it is read, drawn by KaTeX after it is sanitised.

import { displayFormulas, inlineFormulas } from "./formula_scanner.js";

const MARK = /\ue000(\d+)\ue001/g;
const SETTINGS = { throwOnError: false, trust: false, strict: "ignore", maxSize: 20, maxExpand: 200 };

let katex;
const load = () => (katex ??= import("./vendor/katex/katex.min.js").then(() => globalThis.katex));

export class Formulas {
  #found = [];
  #exact;

  /** `exact`: of texts as a page says them, which have no formulas, whatever signs are in them. */
  constructor({ exact = false } = {}) {
    this.#exact = exact;
  }

  /** `text` with a mark in place of each formula. */
  takeOut(text) {
    const plain = text.replace(/[\ue000\ue001]/g, "");
    return this.#exact ? plain : this.#mark(this.#mark(plain, displayFormulas, true), inlineFormulas, false);
  }

  #mark(text, find, display) {
    const pieces = [];
    let done = 0;
    for (const { start, end, latex } of find(text)) {
      pieces.push(text.slice(done, start), `\ue000${this.#found.length}\ue001`);
      // One formula inside another is no LaTeX; the outer one keeps its text.
      const whole = latex.replace(MARK, (_, number) => this.#found[number].latex);
      this.#found.push({ latex: whole.trim(), display });
      done = end;
    }
    return pieces.join("") + text.slice(done);
  }

  /** Draws the formulas in place of their marks, which are in text nodes only: sanitising left no others. */
  async draw(root) {
    if (!this.#found.length) return;
    const engine = await load().catch(() => null);
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) if (walker.currentNode.data.includes("\ue000")) nodes.push(walker.currentNode);
    for (const node of nodes) {
      const pieces = node.data.split(MARK);
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
