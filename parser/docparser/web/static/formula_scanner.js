// SPDX-License-Identifier: Apache-2.0
// Where formulas stand in a text, in one pass: time grows with its length, whatever it holds. A search for a closing
// mark begins where the last one ended. docparser/convert/formulas.py does the same in the service.

const DISPLAY_MARKS = { "$$": "$$", "\\[": "\\]" };
// Tells a formula from prices: "$5 and $10" has no formula, "$ x $" and "$n^2$" are formulas.
const MATHEMATICAL = /[\\^_={}+<>|*/]|^\s*[A-Za-z]\s*$/;
// Between the signs of "($/t) and ($/kg)": a bracket closes before one opens, or one opens at the end. With a command it
// may be a formula, like the interval "x \in ]0, 1[".
const TORN = /^(?:[^\\()[\]{}]*[)\]}][^\\]*|[^\\]*[([{])$/;
const LONGEST_IN_DOLLARS = 2000;

/** The next place of `mark`, or the text's length; positions that are asked for must not fall. */
function ahead(text, mark) {
  let next = -1;
  return (position) => {
    if (next < position) {
      next = text.indexOf(mark, position);
      if (next < 0) next = text.length;
    }
    return next;
  };
}

/** `$$...$$` and `\[...\]`, over lines too: `{start, end, latex}`. */
export function* displayFormulas(text) {
  const opening = /\$\$|\\\[/g;
  const closing = Object.fromEntries(Object.entries(DISPLAY_MARKS).map(([opens, closes]) => [opens, ahead(text, closes)]));
  for (let opens; (opens = opening.exec(text)); ) {
    const begin = opens.index + 2;
    const end = closing[opens[0]](begin + 1);
    if (end < text.length) {
      yield { start: opens.index, end: end + 2, latex: text.slice(begin, end) };
      opening.lastIndex = end + 2;
    } else {
      opening.lastIndex = opens.index + 1;
    }
  }
}

/** `$...$` and `\(...\)`, within a line; a text between dollars only if it looks like a formula. */
export function* inlineFormulas(text) {
  const opening = /(?<![\\$\w])\$|\\\(/g;
  const closing = { "$": ahead(text, "$"), "\\(": ahead(text, "\\)") };
  const newline = ahead(text, "\n");
  for (let opens; (opens = opening.exec(text)); ) {
    const sign = opens[0];
    const begin = opens.index + sign.length;
    const end = closing[sign](sign === "$" ? begin : begin + 1);
    const after = end + sign.length;
    if (end < text.length && begin < end && end <= newline(begin) && (sign !== "$" || betweenDollars(text, begin, end))) {
      yield { start: opens.index, end: after, latex: text.slice(begin, end) };
      opening.lastIndex = after;
    } else {
      opening.lastIndex = opens.index + 1; // a sign that closes nothing may open the next formula
    }
  }
}

// PaddleX sets a blank at both ends, others none. With one, the signs are those of prices, units or variables.
function betweenDollars(text, begin, end) {
  if (end - begin > LONGEST_IN_DOLLARS || /[\d$]/.test(text[end + 1] ?? "")) return false;
  const inside = text.slice(begin, end);
  const blank = inside.startsWith(" ");
  return blank === inside.endsWith(" ") && (blank || !TORN.test(inside)) && MATHEMATICAL.test(inside);
}
