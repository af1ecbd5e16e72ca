# SPDX-License-Identifier: Apache-2.0
"""The settings of jobs, a part of the service's."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, BaseModel, Field


class JobSettings(BaseModel):
    """Every field is ``PARSER_<NAME>`` in the environment, except those with an alias."""

    data_dir: Path = Field(
        Path(".run/data"),
        description="Jobs, their documents and results. On a local disk; any number of parsers may share it.",
    )
    public_url: str = Field(
        "",
        pattern=r"^(https?://[^\s?#]+)?$",
        validation_alias=AliasChoices("PUBLIC_URL", "public_url"),
        description="How clients reach this service, where a proxy is in front; default: as the request says.",
    )
    job_keep_hours: float = Field(72.0, gt=0, description="How long an ended job is kept.")
    job_keep_gib: float = Field(50.0, gt=0, description="All jobs together; beyond that the oldest ended ones go.")
    result_url_hours: float = Field(24.0, gt=0, description="How long the address of a result is valid.")
    max_queued_jobs: int = Field(5000, ge=1, description="Jobs that wait or run; beyond that 429.")
    max_queued_pages: int = Field(20000, ge=1, description="Pages of jobs that wait; beyond that 429.")
    min_free_mib: int = Field(512, ge=0, description="Room that must stay free in PARSER_DATA_DIR for new work.")
