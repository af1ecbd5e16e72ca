// SPDX-License-Identifier: Apache-2.0
// Tables as they are shown. Their spans are cut to what is there: a model can write any number, and a browser would lay
// all of it out. Cells are placed as in docparser/html_tables.py. Heads say to readers what they name.

const MAX_SPAN = 200;
const MAX_COVERED = 100_000; // places that the spans of a table cover in all

/** The first place in `sorted` whose value is not less than `value`. */
function place(sorted, value) {
  let low = 0;
  for (let high = sorted.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The cells of `rows` with the column that each begins in; none runs into a cell from a row above. */
function placed(rows) {
  const cells = [];
  let above = [];
  for (const [row, element] of rows.entries()) {
    const here = [];
    let column = 0;
    let passed = 0;
    for (const cell of element.cells) {
      for (; passed < above.length && above[passed].start <= column; passed++) column = Math.max(column, above[passed].end);
      const room = passed < above.length ? above[passed].start - column : MAX_SPAN;
      const width = Math.min(cell.colSpan, MAX_SPAN, room);
      const height = Math.min(cell.rowSpan || MAX_SPAN, MAX_SPAN, rows.length - row);
      cells.push({ cell, column, width, height });
      if (height > 1) here.push({ start: column, end: column + width, last: row + height - 1 });
      column += width;
    }
    above = [...above, ...here].filter(({ last }) => last > row).sort((one, other) => one.start - other.start);
  }
  return cells;
}

/** Cuts the spans in `root`: a cell covers no row that is not there, and no column in which no cell begins. */
export function cutSpans(root) {
  for (const table of root.querySelectorAll("table")) {
    const cells = placed([...table.rows]);
    const columns = [...new Set(cells.map(({ column }) => column))].sort((one, other) => one - other);
    let covered = 0;
    for (const { cell, column, width, height } of cells) {
      const colSpan = place(columns, column + width) - place(columns, column);
      covered += height * colSpan - 1;
      const cut = covered > MAX_COVERED;
      if (cell.rowSpan !== 1) cell.rowSpan = cut ? 1 : height;
      if (cell.colSpan !== 1) cell.colSpan = cut ? 1 : colSpan;
    }
  }
}

/** Makes the first `count` rows of a table, and what is in its `thead`, its head, and says of each header what it names. */
export function nameHeads(table, count) {
  const rows = [...table.rows];
  for (const [at, row] of rows.entries()) {
    if (at < count || row.closest("thead")) for (const cell of [...row.cells]) cell.replaceWith(renamed(cell, "th"));
    for (const cell of [...row.cells]) if (cell.localName === "th" && !cell.textContent.trim() && !cell.children.length) cell.replaceWith(renamed(cell, "td"));
  }
  const below = rows.findIndex((row) => [...row.cells].some((cell) => cell.localName === "td" && cell.textContent.trim()));
  for (const header of table.querySelectorAll("th")) {
    const inHead = below < 0 ? header.parentNode === rows[0] : rows.indexOf(header.parentNode) < below;
    header.scope = inHead ? (header.colSpan > 1 ? "colgroup" : "col") : header.rowSpan > 1 ? "rowgroup" : "row";
  }
}

/** The cell as an element of another name. */
function renamed(cell, name) {
  const other = document.createElement(name);
  for (const { name: attribute, value } of cell.attributes) other.setAttribute(attribute, value);
  other.append(...cell.childNodes);
  return other;
}
