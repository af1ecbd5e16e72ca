# SPDX-License-Identifier: Apache-2.0
"""Settings of the work on pages: worker processes, and child processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

import cgroup
import parser_memory
from docparser.settings.base import SettingsGroup
from docparser.settings.models import model_of
from served_weights.layout import has_one

PAGES_IN_FLIGHT, MOST_PAGES_IN_FLIGHT = 24, 256


def default_threads(cores: int, workers: int) -> int:
    """More threads than cores would slow all pages down; more than four gain little on images of 800 x 800."""
    return min(4, max(1, cores // workers))


def default_pages_in_flight(known: dict[str, Any]) -> int:
    """A page that is read whole is one call, so its worker begins as many as it may have calls."""
    model = model_of(known)
    if model is None or has_one(model) or not {"workers", "vlm_concurrency"} <= known.keys():
        return PAGES_IN_FLIGHT
    return max(1, min(MOST_PAGES_IN_FLIGHT, known["vlm_concurrency"] // known["workers"]))


class PageSettings(SettingsGroup):
    workers: int = Field(
        default_factory=lambda: parser_memory.default_workers(cgroup.cores(), cgroup.memory()),
        ge=1,
        le=64,
        description="Worker processes (1 GiB each); one page at a time has the CPU in each. Default: half the cores, "
        "at most 32 and as many as the memory is enough for (PARSER_MEM_LIMIT); with two cores, two.",
    )
    cpu_threads: int = Field(
        default_factory=lambda known: default_threads(cgroup.cores(), known.get("workers", 1)),
        ge=1,
        le=64,
        description="Threads of the layout model, per worker. Default: the worker's share of the cores, 4 at most.",
    )
    pages_in_flight: int = Field(
        default_factory=default_pages_in_flight,
        ge=1,
        le=MOST_PAGES_IN_FLIGHT,
        description="Pages that a worker has begun; all but one wait for the VLM. Default: 24; where the VLM reads "
        "whole pages, the worker's share of PARSER_VLM_CONCURRENCY, 256 at most.",
    )
    bulk_share: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Share of bulk pages among those that begin while interactive and bulk ones wait; 0: none, so bulk "
        "can wait for ever (docs/api.md#interactive-and-bulk).",
    )
    max_pixels_in_flight: int = Field(
        default=300_000_000, ge=1, description="A worker whose pages have more pixels begins no further page."
    )
    page_timeout_s: float = Field(
        default=900.0,
        gt=0,
        description="Longest time in which the VLM reads no block of a page; a page that goes on may take longer. A "
        "page that the VLM reads whole has this much time from the moment its call begins.",
    )
    render_timeout_s: float = Field(
        default=20.0, gt=0, le=3600, description="Most CPU time for making pixels of one page, or opening a document."
    )
    render_memory_mib: int = Field(
        default=2048, ge=256, description="Most memory for it; 1,300 are enough for an image of 100 million pixels."
    )
    step_timeout_s: float = Field(
        default=180.0, gt=0, description="Longest time on the CPU without a break; then the worker is replaced."
    )
    start_timeout_s: float = Field(default=600.0, gt=0, description="Longest time for a worker to load its models.")
    cache_dir: Path = Field(
        default=Path("~/.cache/docparser"),
        description="A writable folder: the layout model's graph, PaddleX's caches, the drawing font.",
    )
    spool_dir: Path | None = Field(
        default=None,
        description="Folder for documents and large results at work, used by this service only; default: temporary.",
    )

    # Child processes, in which texts are read, pages joined and results converted.
    child_cpu_s: float = Field(
        default=30.0,
        gt=0,
        description="Most processor time of one task of a child process (conversions, reading of answers, joining of "
        "pages); the same again for every 100 pages.",
    )
    child_wall_s: float = Field(
        default=120.0, gt=0, description="Longest time of one such task; the same again for every 100 pages."
    )
    child_memory_mib: int = Field(default=768, ge=32, description="Most memory of one such task.")
    child_output_mib: int = Field(default=2048, ge=1, description="Most bytes that one such task may write.")
    child_tasks: int = Field(
        default=12, ge=1, le=64, description="Conversions at once; those that take over a second have low priority."
    )

    # Answers.
    visualize: bool = Field(default=True, description="What a request's `visualize: null` means; true in PaddleX.")
    max_output_image_side: int = Field(default=2000, ge=16, description="Returned images are scaled down to this side.")

    @property
    def pages_at_once(self) -> int:
        """Pages that all workers together may have begun."""
        return self.workers * self.pages_in_flight

    @field_validator("cache_dir")
    @classmethod
    def _expand(cls, path: Path) -> Path:
        return path.expanduser()
