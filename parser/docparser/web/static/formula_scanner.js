// SPDX-License-Identifier: Apache-2.0
// Where formulas stand in a text, in one pass: time grows with its length, whatever it holds. A search for a closing
// mark begins where the last one ended. docparser/formula_signs.py does the same in the service.

const DISPLAY_MARKS = { "$$": "$$", "\\[": "\\]" };
// What each of these tells says docparser/formula_signs.py.
const ALPHANUMERIC = /[\p{L}\p{N}]/u;
const MATHEMATICAL = /[\\^_={}+<>|*/]|^\s*[A-Za-z]\s*$/;
const COMMAND = /\\(?:[A-Za-z]{2}|[,!{}|\\])|[\^_]\{/;
const WORDS = /[A-Za-z]{2},? +[A-Za-z]{2}|[A-Za-z)%.,]\s+(?:[a-z]{3,}|or|to|in|of|at|by)(?=[\s,])|[A-Za-z]{2}_[A-Za-z]{2}|["`€£¥]|==|^\s[a-z]{2,}\s+(?:-[a-z]|[/.~][a-z/])|;\s*$/;
const LONG_WORD = /(?<![A-Za-z{])[A-Za-z]{4}/;
const DIGIT = /\p{Nd}/u;
const DIGIT_OR_DOLLAR = /^[\p{Nd}$]/u;
const NAME = /^[A-Za-z_{]/;
const AFTER_CODE = /^[A-Za-z_{("'?!]/;
const AFTER_TWO_DOLLARS = /^[A-Za-z_{(\p{Nd}$@]/u;
const ENDS_CODE = /(?:[=+\-*/<>,;:.|&@!?#%~^_"']|\\[nrt])$/;
const AMOUNT = /^\s*(?:[-+(~<>]+\s*)?[\p{Nd}一二三四五六七八九十百千万]/u;
const AFTER_AMOUNT = /\s(?:[A-Za-z]{3}|or\s|to\s)|[-+*/=<>|,;:.&(]\s*$|(?<![{\u0400-\ud7ff])[\u0400-\u1eff\u2e80-\ud7ff]/;
const EQUATION = /[=^_]/;
const NEXT_AMOUNT = /^\s?[-+(~]?\p{Nd}/u;
const BEHIND_AMOUNT = /^\s+(?:[/,;:]|\|\s)/;
const SUM = /[-+=*/<>|]\s*\p{Nd}[\p{Nd}\s.,]*$/u;
const PRINTED = new RegExp([
  /^\s*$|^[\s*]*[.…][\s.…*]*$|^\s*[a-z]{3,}\s*$|^\s*(?:!\s*)?-[a-z]{3,}\s+[\p{L}\p{N}_."'*\/]/u.source,
  /^(?![^]*\\[A-Za-z]{2})[^]*["`]|^[A-Za-z0-9 \-]+(?:\\\|[A-Za-z0-9 \-]+)+$/u.source,
  /\.[*+]|\[\^|\[\[:|\[(?:a-z|A-Z|0-9)|(?<!\\)\\(?:[0-9]|[wdsebWDS](?![A-Za-z]))/u.source].join("|"), "u");
const AFTER_GROUP = /^(?:\*[\p{L}\p{N}_.$'"/\\]|\\[+?{|])/u;
const REFERENCE = /(?<!\\)\\[1-9]/;
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

/** `$$...$$` and `\[...\]`, over lines too; only what looks like a formula: `{start, end, latex}`. */
export function* displayFormulas(text) {
  const opening = /(?<!\$)\$\$(?!\$)|(?<![\\^])\\\[/g;
  const closing = Object.fromEntries(Object.entries(DISPLAY_MARKS).map(([opens, closes]) => [opens, ahead(text, closes)]));
  const whole = [text.length - text.trimStart().length, text.trimEnd().length];
  for (let opens; (opens = opening.exec(text)); ) {
    const begin = opens.index + 2;
    const end = closing[opens[0]](begin + 1);
    if (end === text.length) continue;
    const dollars = opens[0] === "$$";
    if (dollars ? betweenTwoDollars(text, begin, end, whole) : betweenBrackets(text, begin, end)) {
      yield { start: opens.index, end: end + 2, latex: text.slice(begin, end) };
    } else if (dollars) continue; // dollars that close nothing may open the next formula
    opening.lastIndex = end + 2;
  }
}

/** `$...$` and `\(...\)`, within a line; only what looks like a formula. */
export function* inlineFormulas(text) {
  const opening = /(?<![\\$\p{L}\p{N}_])\$|(?<!\\)\\\(/gu;
  const closing = { "$": ahead(text, "$"), "\\(": ahead(text, "\\)") };
  const newline = ahead(text, "\n");
  const expressions = REFERENCE.test(text);
  for (let opens; (opens = opening.exec(text)); ) {
    const sign = opens[0];
    const begin = opens.index + sign.length;
    const end = closing[sign](sign === "$" ? begin : begin + 1);
    const after = end + sign.length;
    opening.lastIndex = opens.index + 1; // a dollar that closes nothing may open the next formula
    if (end === text.length || begin >= end || end > newline(begin)) continue;
    if (sign === "$" ? betweenDollars(text, begin, end) : !expressions && betweenBrackets(text, begin, end)) {
      yield { start: opens.index, end: after, latex: text.slice(begin, end) };
    } else if (sign === "$") continue;
    opening.lastIndex = after;
  }
}

function betweenBrackets(text, begin, end) {
  return !(PRINTED.test(text.slice(begin, end)) || AFTER_GROUP.test(text.slice(end + 2, end + 5)));
}

/** `whole`: where the text begins and ends. A formula that is all of it needs no sign of mathematics. */
function betweenTwoDollars(text, begin, end, whole) {
  const inside = text.slice(begin, end);
  const after = text[end + 2] ?? "";
  if (COMMAND.test(inside)) return after !== "$";
  if (WORDS.test(inside) || inside.includes(";") || !ALPHANUMERIC.test(inside)) return false;
  if (begin - 2 === whole[0] && end + 2 === whole[1]) return true;
  const blanks = [inside.at(0), inside.at(-1)].map((sign) => !sign.trim());
  return !(AFTER_TWO_DOLLARS.test(after) || blanks[0] !== blanks[1] || LONG_WORD.test(inside) || BEHIND_AMOUNT.test(inside) ||
    !MATHEMATICAL.test(inside));
}

// PaddleX sets a blank at both ends, others none. With one, the signs are those of prices, units or variables.
function betweenDollars(text, begin, end) {
  const after = text[end + 1] ?? "";
  const inside = text.slice(begin, Math.min(end, begin + LONGEST_IN_DOLLARS + 1));
  if (inside.length > LONGEST_IN_DOLLARS || DIGIT_OR_DOLLAR.test(after) || inside.endsWith("\\")) return false;
  const blank = inside.startsWith(" ");
  if (blank !== inside.endsWith(" ") || !MATHEMATICAL.test(inside)) return false;
  if (!blank && AFTER_CODE.test(after) && ENDS_CODE.test(inside)) return false;
  if (inside.includes("\\")) return true; // a command, so a formula, even if it is an interval like "x \in ]0, 1["
  if (WORDS.test(inside) || (SUM.test(inside) && DIGIT.test(text.slice(Math.max(begin - 3, 0), begin - 1)))) return false;
  const nextAmount = blank && !EQUATION.test(inside) && NEXT_AMOUNT.test(text.slice(end + 1, end + 6));
  if (AMOUNT.test(inside) && (nextAmount || AFTER_AMOUNT.test(inside))) return false;
  if (blank) return !BEHIND_AMOUNT.test(inside);
  return !(torn(inside) || ("({".includes(inside[0]) && after === inside[0]) || (NAME.test(after) && !endsBeforeAName(inside)));
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
  return (raised && !ENDS_CODE.test(inside)) || /^[A-Za-z]$/.test(inside);
}
