# SPDX-License-Identifier: Apache-2.0
"""Requests and answers of the OpenAI API's chat completions, as far as reading a document goes (API reference, "Create
chat completion", "The chat completion object", "The chat completion chunk object", "The model object", 2025).

The document is that of the last turn: what stands before the last answer of the assistant is the past, which chat
interfaces send again with each question. Fields that are not listed are ignored, as other servers of this API do.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, StrictBool, StrictInt
from typing_extensions import TypedDict

from docparser.contract.answers import Report
from docparser.contract.schemas import MAX_FIELDS, MAX_TEXT, Lenient, ParseOptions, Text

MAX_VALUES = 50_000  # of a body: a chat that is sent again with each question has five of a message
MAX_MESSAGES = 10_000
MAX_PARTS = 1000  # of a message
MAX_TOOLS = 128  # the OpenAI API's

# What a client may send to steer a text that it wants written. A document's text is what stands there.
NO_EFFECT = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
)


class ImageUrl(Lenient):
    url: str = Field(description="`data:image/png;base64,...`, or a URL where the operator allows its host.")


class FileData(Lenient):
    file_data: str | None = Field(default=None, description="`data:application/pdf;base64,...`")
    file_id: Text | None = Field(default=None, description="Refused: this service keeps no files.")


class ContentPart(Lenient):
    type: str = Field(max_length=MAX_TEXT, description="`text`, `image_url` or `file`.")
    image_url: Annotated[ImageUrl | None, BeforeValidator(lambda v: {"url": v} if isinstance(v, str) else v)] = None
    file: FileData | None = None


def _parts(content: Any) -> Any:
    """A text alone is one part; null, as assistants' messages may have it, is none."""
    return [{"type": "text"}] if isinstance(content, str) else [] if content is None else content


class Message(Lenient):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[
        list[ContentPart],
        FailFast(),
        BeforeValidator(_parts),
        Field(max_length=MAX_PARTS, description="A text, or a list of parts."),
    ] = Field(default_factory=list)


Tools = Annotated[list[Any], Field(max_length=MAX_TOOLS)]


class StreamOptions(Lenient):
    include_usage: StrictBool | None = Field(default=None, description="A last chunk has the usage.")


class ChatRequest(BaseModel):
    """Body of ``POST /v1/chat/completions``."""

    model_config = ConfigDict(extra="allow", frozen=True)

    model: str = Field(max_length=MAX_TEXT, description="A name of GET /v1/models.")
    messages: Annotated[list[Message], FailFast()] = Field(
        min_length=1, max_length=MAX_MESSAGES, description="The last turn holds one image or file."
    )
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    n: StrictInt | None = Field(default=None, description="1, or left out.")
    tools: Tools | None = Field(default=None, description="Refused unless it is empty; so are functions.")
    functions: Tools | None = None
    response_format: Annotated[dict[str, Any], Field(max_length=MAX_FIELDS)] | None = Field(
        default=None, description='`{"type": "text"}`, or left out.'
    )
    modalities: Annotated[list[Text], Field(max_length=10)] | None = Field(
        default=None, description='`["text"]`, or left out.'
    )
    logprobs: StrictBool | None = Field(default=None, description="Refused unless it is false.")
    options: ParseOptions | None = Field(default=None, description="Options of /layout-parsing.")

    def refusal(self) -> str | None:
        """Why the request cannot be met, with the field's name; None if it can."""
        if self.n not in (None, 1):
            return f"n: {self.n} answers were asked for; a document has one text, so send 1 or leave it out"
        for field in ("tools", "functions"):
            if getattr(self, field):
                return f"{field}: this service reads documents and calls nothing; leave it out"
        if (self.response_format or {}).get("type", "text") != "text":
            return 'response_format: the answer is Markdown; send {"type": "text"} or leave it out'
        if set(self.modalities or ("text",)) != {"text"}:
            return 'modalities: the answer is text; send ["text"] or leave it out'
        if self.logprobs:
            return "logprobs: a page is read block by block and has none; send false or leave it out"
        return None

    def document(self) -> tuple[str, str]:
        """Where the document stands, and its base64 or URL. Raises ValueError unless there is exactly one."""
        turn = [place for place, message in enumerate(self.messages) if message.role == "assistant"]
        found: list[tuple[str, str]] = []
        for place, message in enumerate(self.messages[turn[-1] + 1 if turn else 0 :], turn[-1] + 1 if turn else 0):
            for number, part in enumerate(message.content):
                where = f"messages.{place}.content.{number}"
                if part.type == "image_url" and part.image_url is not None:
                    found.append((f"{where}.image_url.url", part.image_url.url))
                elif part.type == "file" and part.file is not None and part.file.file_data is not None:
                    found.append((f"{where}.file.file_data", part.file.file_data))
                elif part.type != "text":
                    raise ValueError(f"{where}: {_what_is_wrong(part)}")
        if len(found) != 1:
            raise ValueError(
                f"messages: the last turn has {len(found) or 'no'} images and files; expected one, as a part "
                '{"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}} or '
                '{"type": "file", "file": {"file_data": "data:application/pdf;base64,..."}}. '
                + ("Send one request for each." if found else "This service reads a document and answers no questions.")
            )
        return found[0]

    def notes(self) -> list[str]:
        """What a client is told of fields without effect."""
        sent = [name for name in NO_EFFECT if (self.model_extra or {}).get(name) is not None]
        return [f"{', '.join(sent)}: no effect; the answer is the document's text."] if sent else []


def _what_is_wrong(part: ContentPart) -> str:
    if part.type == "file" and part.file is not None and part.file.file_id is not None:
        return "file.file_id: this service keeps no files; send the document itself as file_data"
    if part.type in ("image_url", "file"):
        return f"{part.type}: missing; expected " + ("an object with url" if part.type == "image_url" else "file_data")
    return f"type: {part.type[:40]!r} is not known here; expected text, image_url or file"


# ---- answers, built as ``answers`` says


FinishReason = Literal["stop", "length"]


class ModelEntry(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[ModelEntry]


class TokenUsage(TypedDict):
    """The VLM's own tokens over all blocks."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionMessage(TypedDict):
    role: Literal["assistant"]
    content: str
    refusal: None


class CompletionChoice(TypedDict):
    """``finish_reason`` is ``length`` if the text of a block was cut."""

    index: int
    message: CompletionMessage
    logprobs: None
    finish_reason: FinishReason


class CompletionHead(TypedDict):
    id: str
    created: int
    model: str


class ChatCompletion(CompletionHead):
    object: Literal["chat.completion"]
    choices: list[CompletionChoice]
    usage: TokenUsage
    docparser: Report


class Delta(TypedDict, total=False):
    role: Literal["assistant"]
    content: str


class ChunkChoice(TypedDict):
    index: int
    delta: Delta
    logprobs: None
    finish_reason: FinishReason | None


class ChunkExtras(TypedDict, total=False):
    docparser: Report
    usage: TokenUsage


class ChatCompletionChunk(CompletionHead, ChunkExtras):
    """``data`` of an event. ``docparser`` stands in the chunk with the ``finish_reason``, ``usage`` in one without
    choices."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChunkChoice]
