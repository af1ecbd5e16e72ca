# SPDX-License-Identifier: Apache-2.0
"""The body of ``POST /restructure-pages``: whole documents, so it is read in a child process and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from docparser.contract import strict_json
from docparser.contract.answers import PageEntry
from docparser.contract.schemas import RestructureRequest, describe_error, describe_errors, json_error, log_id_of
from docparser.errors import BodyTooComplex, DocumentTooLarge, InvalidRequest, ParserError
from docparser.worker.messages import SentHead

PAGE_VALUES = 20_000  # on average over its pages; the layout model finds 300 blocks, each stands twice with 30 values


def answer(
    body: bytes, most: int, join: Callable[[RestructureRequest], list[PageEntry]]
) -> tuple[SentHead, list[PageEntry]]:
    """What ``body`` says of itself, and the entries that ``join`` makes of its pages, which may be ``most``."""
    log_id = None
    try:
        data = _read(body, most)
        log_id = log_id_of(data)
        request = _request_of(data, most)
        return SentHead(log_id, notes=request.notes()), join(request)
    except ParserError as exc:
        return SentHead(log_id, type(exc).__name__, str(exc)), []


def _read(body: bytes, most: int) -> Any:
    """``most``: pages that it may have. Raises InvalidRequest, BodyTooComplex."""
    try:
        return strict_json.loads(body, most * PAGE_VALUES)
    except strict_json.BeyondBounds as exc:
        raise BodyTooComplex(f"body: {exc}") from None
    except json.JSONDecodeError as exc:
        raise InvalidRequest(describe_error(json_error(exc.msg, exc.pos))) from None


def _request_of(data: Any, most: int) -> RestructureRequest:
    """Raises InvalidRequest, DocumentTooLarge."""
    try:
        request = RestructureRequest.model_validate(data)
    except ValidationError as exc:
        raise InvalidRequest(describe_errors(exc.errors())) from None
    if not request.pages:
        raise InvalidRequest("pages: empty; expected the pages of an earlier answer")
    if len(request.pages) > most:
        raise DocumentTooLarge(f"pages: {len(request.pages)}; at most {most} are allowed (PARSER_MAX_PAGES).")
    return request
