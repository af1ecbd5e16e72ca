// SPDX-License-Identifier: Apache-2.0
// Where formulas stand in a text, in one pass: time grows with its length, whatever it holds. A search for a closing
// mark begins where the last one ended. docparser/formula_signs.py does the same in the service.

const DISPLAY_MARKS = { "$$": "$$", "\\[": "\\]" };
// Tells a formula from prices: "$5 and $10" has no formula, "$ x $" and "$n^2$" are formulas.
const MATHEMATICAL = /[\\^_={}+<>|*/]|^\s*[A-Za-z]\s*$/;
const NAME = /^[A-Za-z_{]/; // after a closing sign: then it may be a variable's, as in "$HOME/bin:$PATH"
const WORDS = /[A-Za-z]{2},? +[A-Za-z]{2}/; // of a sentence, between two prices
const BETWEEN_NAMES = "=+-*/<>,;:.|&"; // with these code ends before its next variable, and no formula ends
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
  const after = text[end + 1] ?? "";
  if (end - begin > LONGEST_IN_DOLLARS || /[\d$]/.test(after)) return false;
  const inside = text.slice(begin, end);
  const blank = inside.startsWith(" ");
  if (blank !== inside.endsWith(" ") || !MATHEMATICAL.test(inside)) return false;
  if (inside.includes("\\")) return true; // a command, so a formula, even if it is an interval like "x \in ]0, 1["
  if (WORDS.test(inside)) return false;
  return blank || !(torn(inside) || (NAME.test(after) && !endsBeforeAName(inside)));
}

/** Whether a bracket lacks its other, as between the signs of "($/t) and ($/kg)". */
function torn(inside) {
  let depth = 0;
  for (const sign of inside) {
    depth += "([{".includes(sign) - ")]}".includes(sign);
    if (depth < 0) return true;
  }
  return depth > 0;
}

/** Whether it is a formula although a letter follows, as in "$n$th" and "10$^3$m". */
function endsBeforeAName(inside) {
  const raised = inside.includes("^") || (inside.includes("_") && !inside.startsWith("{"));
  return (raised && !BETWEEN_NAMES.includes(inside.at(-1))) || /^[A-Za-z]$/.test(inside);
}
