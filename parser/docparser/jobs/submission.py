# SPDX-License-Identifier: Apache-2.0
"""A submission of a job: its fields and its document, checked before anything is kept."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import PurePath
from typing import Any, BinaryIO

from pydantic import ValidationError

from docparser.contract import strict_json
from docparser.contract.request_parts import MAX_RANGES, PRIORITIES, parse_ranges
from docparser.contract.schemas import ParseOptions, describe_errors, unknown_notes
from docparser.documents.intake import type_of_upload
from docparser.errors import InvalidDocument, InvalidJob, InvalidRequest
from docparser.jobs.webhook import MOST_CHARACTERS
from docparser.models.served_model import SDK_NAMES, ServedModel

FIELDS = ("model", "optionalPayload", "pageRanges", "batchId", "callbackUrl", "priority")  # beside the document
MAX_NAME = 200
MAX_ID = 128
MAX_PAYLOAD = 1 << 16  # characters; it is kept with the job


@dataclasses.dataclass(frozen=True)
class Submission:
    """``options`` are the fields of ``ParseOptions`` as the client sent them. Equal submissions have one
    ``fingerprint``. ``notes`` say which fields have no effect."""

    model: str
    options: dict[str, Any]
    page_ranges: str | None
    batch_id: str | None
    callback_url: str | None
    bulk: bool
    idempotency_key: str | None
    file_name: str
    format: str
    document: BinaryIO
    fingerprint: str
    notes: list[str]


def check_submission(
    fields: dict[str, Any], document: BinaryIO, *, file_name: str, idempotency_key: str | None, served: ServedModel
) -> Submission:
    """``fields`` are the request's fields besides the document. Blocks; raises InvalidJob."""
    for field, value in fields.items():
        # A form may name a charset whose text no file and no database can hold.
        if isinstance(value, str) and not strict_json.is_text(value):
            raise InvalidJob(f"{field[:40]!r}: expected text; it has an unpaired surrogate; send valid Unicode")
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidJob("model: missing; expected one of " + ", ".join((*SDK_NAMES, served.served_name)))
    served.check(model)
    ranges = _text(fields, "pageRanges", MAX_RANGES)
    try:
        parse_ranges(ranges or "1")
    except ValueError as exc:
        raise InvalidJob(f"pageRanges: {exc}") from None
    options = _options(fields.get("optionalPayload"))
    batch_id = _text(fields, "batchId", MAX_ID)
    if idempotency_key is not None and not 0 < len(idempotency_key) <= MAX_ID:
        raise InvalidJob(f"Idempotency-Key: {len(idempotency_key)} characters; expected 1 to {MAX_ID}")
    callback_url = _text(fields, "callbackUrl", MOST_CHARACTERS)
    priority = _text(fields, "priority", MAX_ID)
    if priority is not None and priority not in PRIORITIES:
        raise InvalidJob(f"priority: {priority!r} is not valid; expected {' or '.join(PRIORITIES)}")
    try:
        format = type_of_upload(document)
    except (InvalidDocument, InvalidRequest) as exc:
        raise InvalidJob(str(exc)) from None
    # Every binary file has readinto; typing.BinaryIO does not declare it.
    digest = hashlib.file_digest(document, "sha256")  # type: ignore[arg-type]
    told = [*filter(None, [callback_url, priority])]  # an option that is not given leaves the fingerprint as it is
    digest.update(json.dumps([model, options, ranges, batch_id, *told], sort_keys=True).encode())
    document.seek(0)
    return Submission(
        model=model,
        options=options,
        page_ranges=ranges,
        batch_id=batch_id,
        callback_url=callback_url,
        bulk=priority == "bulk",
        idempotency_key=idempotency_key,
        file_name=PurePath(file_name.encode("utf-8", "replace").decode()).name[:MAX_NAME] or "document",
        format=format,
        document=document,
        fingerprint=digest.hexdigest(),
        notes=_notes(fields),
    )


def _notes(fields: dict[str, Any]) -> list[str]:
    """On fields that mean nothing here, and on options that do not stand in ``optionalPayload``."""
    unknown = [name for name, value in fields.items() if name not in FIELDS and value not in (None, "")]
    misplaced = [name for name in unknown if name in ParseOptions.model_fields]
    others = [name for name in unknown if name not in (*misplaced, "options")]
    return [
        *["options: has no effect here; send it as optionalPayload."][: "options" in unknown],
        *(f"{name}: has no effect here; it is an option, and belongs into optionalPayload." for name in misplaced),
        *unknown_notes(others, FIELDS, "field"),
    ]


def _text(fields: dict[str, Any], field: str, longest: int) -> str | None:
    value = fields.get(field)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidJob(f"{field}: expected a string of at most {longest} characters")
    return value


def _options(payload: Any) -> dict[str, Any]:
    """``optionalPayload``: an object, in multipart as a JSON string. Raises InvalidJob."""
    if payload is None or payload == "":
        return {}
    if isinstance(payload, str):
        try:
            payload = strict_json.loads(payload)
        except ValueError as exc:
            raise InvalidJob(f"optionalPayload: not valid JSON ({exc})") from None
    if not isinstance(payload, dict):
        raise InvalidJob("optionalPayload: expected a JSON object")
    options = {name: value for name, value in payload.items() if name not in ("file", "fileType")}
    if (size := len(json.dumps(options, ensure_ascii=False))) > MAX_PAYLOAD:
        raise InvalidJob(f"optionalPayload: {size} characters beside a file; expected at most {MAX_PAYLOAD}")
    try:
        ParseOptions.model_validate(options)
    except ValidationError as exc:
        raise InvalidJob(f"optionalPayload: {describe_errors(exc.errors())}") from None
    return options
