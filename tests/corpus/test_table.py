# SPDX-License-Identifier: Apache-2.0
"""A document's pages as rows of a Parquet file."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pyarrow.parquet

from batch.state import Trouble
from corpus import table
from tests.support.entries import block_of, entry_of


def test_headings_are_as_printed(tmp_path: Path):
    entry = entry_of([block_of("paragraph_title", text, (0, top, 90, top + 9)) for top, text in
                      ((0, "3D printing"), (20, "Ipsum labore."))])  # fmt: skip
    entry |= {"page": 1, "markdown": {"text": "## 3 D printing\n\n## Ipsum labore", "images": {}}}
    records: list[Any] = [entry, Trouble(2, "damaged")]
    state: Any = types.SimpleNamespace(
        document=types.SimpleNamespace(name=Path("a.pdf")), records=lambda: iter(records), outlined=False
    )
    table.write(state, tmp_path / "a.parquet", {})
    texts = pyarrow.parquet.read_table(tmp_path / "a.parquet")["text"].to_pylist()
    assert texts == ["## 3D printing\n\n## Ipsum labore.", None]
