# SPDX-License-Identifier: Apache-2.0
"""Settings of jobs."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field

from docparser.settings.base import SettingsGroup


class JobSettings(SettingsGroup):
    data_dir: Path = Field(
        default=Path(".run/data"),
        description="Jobs, their documents and results, on a local disk; any number of parsers may share it. Local "
        "mode: RUN_DIR/data.",
    )
    database_url: str = Field(
        default="",
        json_schema_extra={"format": "database"},
        repr=False,
        description="`postgresql://...`: the queue of several nodes (docs/several-nodes.md), which share "
        "PARSER_DATA_DIR, or a bucket.",
    )
    storage_url: str = Field(
        default="",
        json_schema_extra={"format": "bucket"},
        description="`s3://bucket/prefix` for documents and results of several nodes, in place of PARSER_DATA_DIR.",
    )
    public_url: str = Field(
        default="",
        json_schema_extra={"format": "public address"},
        validation_alias=AliasChoices("PUBLIC_URL", "public_url"),
        description="The service's address as clients see it, behind a proxy; empty: as the request says.",
    )
    job_keep_hours: float = Field(default=72.0, gt=0, description="How long an ended job is kept.")
    job_keep_gib: float = Field(
        default=50.0, gt=0, description="Size of all jobs together; beyond it the oldest ended jobs are removed."
    )
    result_url_hours: float = Field(default=24.0, gt=0, description="How long the address of a result is valid.")
    max_queued_jobs: int = Field(default=5000, ge=1, description="Jobs that wait or run; beyond that 429.")
    max_queued_pages: int = Field(default=20000, ge=1, description="Pages of jobs that wait; beyond that 429.")
    min_free_mib: int = Field(
        default=512, ge=0, description="Room that must stay free in PARSER_DATA_DIR for new work."
    )
    job_vlm_away_minutes: float = Field(
        default=0.0,
        ge=0,
        description="Once the VLM has been away for so many minutes, submissions of jobs get 503 until it is back; 0: "
        "jobs are accepted and wait. Most clients show only their own time-out while a job waits.",
    )
