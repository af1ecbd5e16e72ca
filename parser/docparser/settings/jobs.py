# SPDX-License-Identifier: Apache-2.0
"""Settings of jobs, and of callbacks: requests that tell a client's own service that its job has ended."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field

from docparser.settings.base import SettingsGroup


class JobSettings(SettingsGroup):
    data_dir: Path = Field(
        default=Path(".run/data"),
        description="Jobs, their documents and results; any number of parsers may share it. On a local disk, unless "
        "PARSER_DATABASE_URL is set. Local mode: RUN_DIR/data.",
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


class CallbackSettings(SettingsGroup):
    callback_hosts: str = Field(
        default="",
        json_schema_extra={"format": "hosts"},
        description="Hosts that jobs may send callbacks to (docs/api.md#callbacks), like "
        "`hooks.example.com,*.example.org:8443`. Empty: none.",
    )
    callback_networks: str = Field(
        default="",
        json_schema_extra={"format": "networks"},
        description="Networks, not public ones, that those hosts may resolve to, like `10.2.0.0/16`. Empty: none.",
    )
    callback_secrets: str = Field(
        default="",
        repr=False,
        description="Secrets that sign callbacks: `whsec_<base64 of 24 to 64 bytes>`, comma-separated; `echo "
        '"whsec_$(openssl '
        'rand -base64 32)"` makes one. Each signs every callback; to replace one, list both for a while. Needed '
        "with PARSER_CALLBACK_HOSTS.",
    )
    callback_secrets_file: Path | None = Field(
        default=None,
        description="The same in a file, in containers below `/var/lib/paddleocr-vl`, one per line; changes count "
        "without a restart.",
    )
    callback_timeout_s: float = Field(default=10.0, gt=0, le=300, description="Longest wait for a receiver's answer.")
    callback_pause_s: float = Field(
        default=5.0,
        gt=0,
        description="Pause before the second attempt; each further one is twice as long, 1 h at most.",
    )
    callback_hours: float = Field(default=24.0, gt=0, description="How long a callback that fails is sent again.")
