# SPDX-License-Identifier: Apache-2.0
"""Answers of the OpenAI API (API reference: "The model object", "The chat completion object", "The chat completion
chunk object"). See ``answers``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from docparser.contract.answers import Report

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
