# SPDX-License-Identifier: Apache-2.0
"""Answers in which the service speaks of itself: whether it is ready, what it can, what is in use. See ``answers``."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from docparser.contract.answers import Error, LayoutWeights, Moment, QuotaState, Success, VlmWeights


class Version(TypedDict):
    version: Annotated[str, Field(description="The bundle's.")]


class HealthAnswer(Success):
    result: Version


class LayoutServer(TypedDict):
    url: str
    used: bool
    because: NotRequired[str]


class LayoutState(TypedDict):
    """The workers, which run the layout model."""

    ready: bool
    state: str
    workers: int
    workersReady: int
    engines: dict[str, int]
    model: NotRequired[str | None]
    path: NotRequired[str]
    demo: NotRequired[bool]
    server: NotRequired[LayoutServer]


class Replicas(TypedDict):
    up: int
    configured: int
    diesMissing: int


class VlmState(TypedDict):
    ready: bool
    model: str
    url: str
    path: NotRequired[str]
    demo: NotRequired[bool]
    replicas: NotRequired[Replicas]
    selfTestPassed: NotRequired[bool]


class Isolation(TypedDict):
    """``lacks``: what the kernel has not, with which decoders are isolated."""

    lacks: list[str]


class Condition(TypedDict):
    ready: bool


class States(TypedDict):
    layout: LayoutState
    vlm: VlmState
    isolation: Isolation
    jobs: NotRequired[Condition]


class ReadyAnswer(Success):
    result: States


class NotReadyAnswer(Error):
    result: States


class QuotaUse(QuotaState):
    resets: NotRequired[Moment]


class Usage(TypedDict):
    """``name`` is null where no key is needed."""

    name: str | None
    expires: Moment | None
    quotas: list[QuotaUse]


class UsageAnswer(Success):
    result: Usage


class ModelNames(TypedDict):
    openai: list[str]
    jobs: list[str]


class VlmAbilities(VlmWeights):
    tasks: Annotated[list[str] | None, Field(description="null: not known.")]
    names: Annotated[ModelNames, Field(description="That requests may give it.")]


class ModelAbilities(TypedDict):
    layout: LayoutWeights
    vlm: VlmAbilities


class Formats(TypedDict):
    documents: list[str]
    answers: list[str]
    outputFormats: list[str]


class Confidence(TypedDict):
    doubtfulBelow: Annotated[float | None, Field(description="null: blocks say no confidence.")]


class Capabilities(TypedDict):
    models: ModelAbilities
    formats: Formats
    limits: dict[str, float | bool | None]
    confidence: Confidence
    versions: dict[str, str]


class CapabilitiesAnswer(Success):
    result: Capabilities


class QueuedPages(TypedDict):
    queued: int
    running: int
    most: int


class QueuedJobs(TypedDict):
    pending: int
    running: int
    most: int


class Capacity(TypedDict):
    pages: QueuedPages
    jobs: QueuedJobs
    pagesPerMinute: float
    estimateSeconds: float | None
    accepting: bool
    waitsFor: Annotated[str | None, Field(description="Why waiting pages do not continue.")]


class CapacityAnswer(Success):
    result: Capacity
