# SPDX-License-Identifier: Apache-2.0
"""The blocks of pages, cut out where a running parser finds them: what the model reads are blocks."""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from health_probe import OPENER
from tool_errors import ServiceError, UsageError

from .media import named, png, read_image

PAGE_SECONDS = 1800
# Labels of blocks (PP-DocLayoutV2) that have a task of their own; those of pictures, which have none.
OF_TASK = {"table": {"table"}, "formula": {"display_formula", "formula"}, "chart": {"chart"}, "seal": {"seal"}}
PICTURES = {"image", "header_image", "footer_image"}


def pictures_to_judge(options: argparse.Namespace) -> list[tuple[str, np.ndarray]]:
    """(name, [height, width, 3] uint8) of --test_images, or of the blocks of --test_pages. Raises UsageError and
    ServiceError."""
    if options.test_images:
        return named(options.test_images)
    found = blocks_of(options.test_pages, options.parser, options.task)
    if not found:
        raise UsageError(f"--test_pages: the parser finds no block on them that --task {options.task} is for")
    print(f"{len(found)} blocks of {', '.join(file.name for file in options.test_pages)}", file=sys.stderr, flush=True)
    return found


def blocks_of(files: list[Path], parser: str, task: str) -> list[tuple[str, np.ndarray]]:
    """(name, [height, width, 3] uint8) of each block of the pages that ``task`` is for; all but the others' for ocr.

    Raises UsageError for a file that is no image, ServiceError where the parser cannot be asked or refuses.
    """
    others = PICTURES.union(*(labels for name, labels in OF_TASK.items() if name != task))
    found = []
    for file in files:
        page = read_image(file)
        height, width, _ = page.shape
        for number, block in enumerate(_parsed(png(page), parser)):
            left, top, right, bottom = (round(side) for side in block["block_bbox"])
            rows, columns = slice(max(0, top), min(height, bottom)), slice(max(0, left), min(width, right))
            picture = page[rows, columns]
            wanted = block["block_label"] in OF_TASK[task] if task in OF_TASK else block["block_label"] not in others
            if wanted and picture.size:
                found.append((f"{file.name}, block {number}", np.ascontiguousarray(picture)))
    return found


def _parsed(page: bytes, parser: str) -> list[dict[str, Any]]:
    """The blocks of a page as the parser answers them."""
    url = f"{parser.rstrip('/')}/layout-parsing"
    body = json.dumps({"file": base64.b64encode(page).decode(), "fileType": 1, "visualize": False})
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("PARSER_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    try:
        with OPENER.open(urllib.request.Request(url, body.encode(), headers), timeout=PAGE_SECONDS) as answer:
            (entry,) = json.load(answer)["result"]["layoutParsingResults"]
            return list(entry["prunedResult"]["parsing_res_list"])
    except urllib.error.HTTPError as error:
        words = error.read(2000).decode("utf-8", "replace")
        cure = "; put the key into PARSER_API_KEY" if error.code == 401 else ""
        raise ServiceError(f"{url}: HTTP {error.code}: {words}{cure}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ServiceError(f"{url}: cannot be reached ({reason}); is the parser running? --parser names it") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ServiceError(f"{url}: the answer is no parser's ({error})") from error
