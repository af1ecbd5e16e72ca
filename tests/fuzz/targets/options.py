# SPDX-License-Identifier: Apache-2.0
"""Requests: bodies of the parsing API and of jobs, the words for what is wrong, the checks of the VLM server."""

from __future__ import annotations

import io
import json
from typing import Any

from pydantic import ValidationError

from docparser.contract import strict_json
from docparser.contract.chat import ChatRequest
from docparser.contract.request_parts import file_name_of
from docparser.contract.schemas import LABELS, VLM_EXTRA_ARGS, ParseRequest, RestructureRequest, describe_errors
from docparser.documents import intake
from docparser.errors import InvalidDocument, InvalidJob, InvalidRequest
from docparser.http.errors import error_response, openai_error
from docparser.jobs.submission import check_submission
from docparser.models.served_model import ServedModel
from tests.fuzz.choices import Choices, dumped
from tests.fuzz.verdict import Broken
from vlm_models import fields as vlm_fields
from vlm_models import parts

FIELDS = tuple(ParseRequest.model_fields) + tuple(RestructureRequest.model_fields)
CHAT_FIELDS = (*ChatRequest.model_fields, "temperature", "stop")
PARTS = ("text", "image_url", "file", "input_audio")
JOB_FIELDS = ("model", "fileUrl", "optionalPayload", "pageRanges", "batchId", "file", "fileType")
SERVED = ServedModel("PaddleOCR-VL", "m", ("ocr",), strict=False)
WORDS = (
    *(*LABELS[:6], "0", "24", "25", "large", "union", "rect", "auto", "ocr", "table", "docx", "true", "null"),
    *("data:image/png;base64,", "QUJD", "http://", "file:///", "PaddleOCR-VL", "PaddleOCR-VL-0.9B", "1,2-", "\\ud800"),
    *sorted(VLM_EXTRA_ARGS),
)


def target(data: bytes) -> None:
    choices = Choices(data)
    kind = choices.below(6)
    if kind == 0:
        check_body(choices.rest())
    elif kind == 1:
        parse(as_arrived(body_of(choices, FIELDS)))
    elif kind == 2:
        submit(as_arrived(body_of(choices, JOB_FIELDS)), choices)
    elif kind == 3:
        check_body(dumped(body_of(choices, (*sorted(vlm_fields.REQUEST.keys), "prompt"))))
    elif kind == 4:
        chat(choices)
    else:
        decode(choices)


def body_of(choices: Choices, fields: tuple[str, ...]) -> dict[str, Any]:
    """Some of the fields with values of any kind."""

    def value() -> Any:
        return choices.number() if choices.chance(3) else choices.value(WORDS)

    return {choices.one(fields): value() for _ in range(choices.below(6))}


def as_arrived(body: dict[str, Any]) -> dict[str, Any]:
    """The body as the service reads it; {} where it is refused already."""
    try:
        return strict_json.loads(dumped(body))
    except (ValueError, RecursionError):
        return {}


def parse(body: dict[str, Any]) -> None:
    for schema in (ParseRequest, RestructureRequest):
        try:
            options = schema.model_validate(body)
        except ValidationError as error:
            # The answer that a client would get.
            error_response("/layout-parsing", 422, describe_errors(error.errors()))
            continue
        if isinstance(options, ParseRequest):
            numbers = (options.temperature, options.topP, options.repetitionPenalty)
            if any(number is not None and not abs(number) < float("inf") for number in numbers):
                raise Broken("what goes to the VLM as a number is one that JSON can hold")


def chat(choices: Choices) -> None:
    """A chat as it should be, with parts and fields that may be anything."""
    parts = [
        choices.value(WORDS) if choices.chance(3) else {"type": choices.one(PARTS), choices.one(PARTS): part(choices)}
        for _ in range(choices.below(4))
    ]
    message = {"role": choices.one(("user", "assistant", "x")), "content": parts} if choices.chance(4) else {}
    messages = [{"role": "user", "content": parts}, message][: 1 + choices.below(2)]
    body = {"model": "m", "messages": messages} | body_of(choices, CHAT_FIELDS)
    try:
        request = ChatRequest.model_validate(as_arrived(body))
    except ValidationError as error:
        error_response("/v1/chat/completions", 400, describe_errors(error.errors()))
        return
    said = [request.refusal() or "", *request.notes()]
    try:
        where, document = request.document()
        said += [where, document]
    except ValueError as error:
        said.append(str(error))
    openai_error(400, "".join(said))
    json.dumps(said, ensure_ascii=False).encode()


def part(choices: Choices) -> Any:
    return choices.value(WORDS) if choices.chance(3) else {choices.one(("url", "file_data", "file_id")): "data:x,QUJD"}


def submit(fields: dict[str, Any], choices: Choices) -> None:
    document = io.BytesIO(choices.one((b"", b"%PDF-1.4", b"\x89PNG\r\n\x1a\n", b"GIF89a")))
    key = choices.text(longest=200) if choices.chance(3) else None
    fields = {"model": "PaddleOCR-VL", **fields}
    try:
        found = check_submission(
            fields, document, file_name=choices.text(longest=300), idempotency_key=key, served=SERVED
        )
    except InvalidJob as error:
        error_response("/api/v2/ocr/jobs", 400, str(error))
        return
    if len(found.fingerprint) != 64 or not found.file_name:
        raise Broken("an accepted submission has a fingerprint and a name")
    # What a job keeps on the disk.
    json.dumps([found.options, found.batch_id, found.page_ranges, found.file_name, found.notes]).encode()


def decode(choices: Choices) -> None:
    file = choices.text(WORDS)
    try:
        file_name_of(file)
        content = io.BytesIO()
        intake.decode_into(content, [file.encode("utf-8", "replace")])
        intake.check_type(content.getvalue(), choices.one((None, 0, 1)))
    except (InvalidRequest, InvalidDocument) as error:
        error_response("/layout-parsing", 422, str(error))


def check_body(body: bytes) -> None:
    """What the VLM server lets through has bounded numbers and texts that are texts."""
    try:
        document = vlm_fields.read_request(body)
    except vlm_fields.Refusal as refusal:
        json.dumps(str(refusal)).encode()
        return
    choices = document.get("n")
    if choices is not None and not (type(choices) is int and 1 <= choices <= vlm_fields.MAX_CHOICES):
        raise Broken("n of a request to the VLM is bounded")
    # What vLLM may write into an answer.
    json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    list(parts.media_urls(document))


def seeds() -> list[bytes]:
    bodies = [b'{"n": 9}', b'{"n": 1000.0}', b'{"messages": []}', b"[]", b'{"prompt": [-1]}', b'{"n": "1000"}']
    return [b"\0" + body for body in bodies] + [bytes([kind]) + bytes(range(40)) for kind in range(1, 6)]
