# SPDX-License-Identifier: Apache-2.0
"""Rows as they pass from one stage of a run to the next, and the records that stages leave."""

from __future__ import annotations

import json
from typing import Any

from corpus import records
from corpus.job import Job

VERSION = "0123456789ab"
Row = dict[str, Any]


def row(name: str = "a.pdf", **more: Any) -> Row:
    return {"name": name, "size": 7, "version": VERSION, "former": "", **more}


def kept(job: Job, folder: str) -> dict[str, Row]:
    """The records in a folder, by the names of their documents."""
    texts = [job.output().get(f"{folder}{key}{records.END}") for key in records.keys(job.output(), folder)]
    told = [json.loads(text) for text in texts if text]
    return {one["document"]: one for one in told}


def part_row(**more: Any) -> Row:
    return row(**{"format": "PDF", "pages": 5, "parts": 3, "first": 2, "last": 3, "read": False, "reason": "", **more})
