# SPDX-License-Identifier: Apache-2.0
"""TEDS, the similarity of two tables by the edit distance of their trees (Zhong et al., "Image-based table
recognition", 2020): 1 - distance / nodes of the larger tree.

A tree is a table with rows with cells. To insert or delete a node costs 1; to make one cell another costs 1 where their
spans differ, else the edit distance of their texts over the length of the longer one. The distance is that of Zhang and
Shasha (1989). Head and body cells count as the same, since the VLM's OTSL does not tell them apart.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np

from .scores import edit_distance


@dataclass
class Node:
    """``tag`` is table, tr or td; ``span`` (rows, columns) and ``text`` are those of a cell."""

    tag: str
    span: tuple[int, int] = (1, 1)
    text: str = ""
    children: list[Node] = field(default_factory=list)


class _Reader(HTMLParser):
    """Reads the first table."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Node | None = None
        self._cell: Node | None = None
        self._over = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._over:
            return
        if tag == "table" and self.table is None:
            self.table = Node("table")
        elif tag == "tr" and self.table is not None:
            self.table.children.append(Node("tr"))
            self._cell = None
        elif tag in ("td", "th") and self.table is not None:
            if not self.table.children:
                self.table.children.append(Node("tr"))
            said = dict(attrs)
            rows, columns = (_number(said.get(name)) for name in ("rowspan", "colspan"))
            self._cell = Node("td", (rows, columns))
            self.table.children[-1].children.append(self._cell)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._cell = None
        self._over = self._over or (tag == "table" and self.table is not None)

    def handle_data(self, data: str) -> None:
        if self._cell is not None and not self._over:
            self._cell.text += data


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 1


def read(markup: str) -> Node | None:
    """The tree of the first table in HTML, white space of its texts squeezed; None where there is none."""
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    if reader.table is not None:
        for row in reader.table.children:
            for cell in row.children:
                cell.text = " ".join(cell.text.split())
    return reader.table


def markup_of(cells: Sequence[Sequence[str]]) -> str:
    """The HTML of a table without spans; ``cells`` are rows of texts."""
    rows = ("".join(f"<td>{html.escape(text)}</td>" for text in row) for row in cells)
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def teds(found: str, truth: str) -> float:
    """The similarity of the first tables of two pieces of HTML, 0 to 1; 0 where nothing was found.

    Raises ValueError where ``truth`` has no table.
    """
    expected, tree = read(truth), read(found)
    if expected is None:
        raise ValueError(f"the truth {truth[:80]!r} has no table")
    if tree is None:
        return 0.0
    first, second = _Postorder(tree), _Postorder(expected)
    return max(0.0, 1.0 - _distance(first, second) / max(len(first.nodes), len(second.nodes)))


class _Postorder:
    """The nodes of a tree, children first; ``leftmost`` leaf below each, and the ``roots`` of what is compared."""

    def __init__(self, tree: Node) -> None:
        self.nodes: list[Node] = []
        self.leftmost: list[int] = []
        self._add(tree)
        last = {leaf: number for number, leaf in enumerate(self.leftmost)}
        self.roots = sorted(last.values())

    def _add(self, node: Node) -> int:
        leaves = [self._add(child) for child in node.children]
        leaf = leaves[0] if leaves else len(self.nodes)
        self.nodes.append(node)
        self.leftmost.append(leaf)
        return leaf


def _change(first: Node, second: Node) -> float:
    if first.tag != second.tag or first.span != second.span:
        return 1.0
    longest = max(len(first.text), len(second.text))
    return edit_distance(first.text, second.text) / longest if longest else 0.0


def _distance(first: _Postorder, second: _Postorder) -> float:
    """Of the two trees. ``trees[i, j]`` is that of the trees below nodes ``i`` and ``j``."""
    change: dict[tuple[int, int], float] = {}
    trees = np.zeros((len(first.nodes), len(second.nodes)))
    for i in first.roots:
        for j in second.roots:
            top, left = first.leftmost[i], second.leftmost[j]
            forests = np.zeros((i - top + 2, j - left + 2))
            forests[:, 0], forests[0] = np.arange(len(forests)), np.arange(len(forests[0]))
            for row in range(1, len(forests)):
                for column in range(1, len(forests[0])):
                    a, b = top + row - 1, left + column - 1
                    least = min(forests[row - 1, column], forests[row, column - 1]) + 1
                    if first.leftmost[a] == top and second.leftmost[b] == left:
                        if (a, b) not in change:
                            change[a, b] = _change(first.nodes[a], second.nodes[b])
                        forests[row, column] = min(least, forests[row - 1, column - 1] + change[a, b])
                        trees[a, b] = forests[row, column]
                    else:
                        before = forests[first.leftmost[a] - top, second.leftmost[b] - left]
                        forests[row, column] = min(least, before + trees[a, b])
    return float(trees[-1, -1])
