# SPDX-License-Identifier: Apache-2.0
"""The tables and indexes of jobs and quotas, in the SQL that SQLite (``jobs.storage.database``, ``clients.usage``) and
PostgreSQL (``postgres.schema``) share.
"""

from __future__ import annotations

JOBS = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    flow TEXT NOT NULL,
    batch_id TEXT,
    model TEXT NOT NULL,
    file_name TEXT NOT NULL,
    format TEXT NOT NULL,
    options TEXT NOT NULL,
    page_ranges TEXT,
    idempotency_key TEXT,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL,
    error TEXT,
    created DOUBLE PRECISION NOT NULL,
    started DOUBLE PRECISION,
    finished DOUBLE PRECISION,
    document_pages INTEGER,
    total_pages INTEGER,
    bytes BIGINT NOT NULL,
    turns DOUBLE PRECISION NOT NULL,
    callback TEXT,
    trace TEXT
);
CREATE UNIQUE INDEX jobs_by_key ON jobs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_by_batch ON jobs (owner, batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX jobs_by_owner ON jobs (owner, created, id);
CREATE INDEX active_jobs ON jobs (flow) WHERE state IN ('pending', 'running');
CREATE INDEX ended_jobs ON jobs (finished) WHERE state NOT IN ('pending', 'running');
CREATE TABLE steps (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    process TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before DOUBLE PRECISION NOT NULL DEFAULT 0,
    error TEXT,
    kind TEXT,
    width INTEGER,
    height INTEGER,
    folder TEXT,
    sha256 TEXT,
    finished DOUBLE PRECISION,
    changed BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, number)
);
CREATE INDEX queued_steps ON steps (job_id, number) WHERE state = 'queued';
CREATE INDEX running_steps ON steps (process) WHERE state = 'running';
CREATE INDEX changed_steps ON steps (job_id, changed);
CREATE INDEX finished_steps ON steps (finished) WHERE finished IS NOT NULL;
CREATE TABLE flows (
    flow TEXT PRIMARY KEY,
    turns DOUBLE PRECISION NOT NULL
);
CREATE TABLE callbacks (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    event TEXT NOT NULL,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    state TEXT NOT NULL,
    process TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before DOUBLE PRECISION NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    status INTEGER,
    error TEXT,
    PRIMARY KEY (job_id, event)
);
CREATE INDEX queued_callbacks ON callbacks (not_before) WHERE state = 'queued';
CREATE INDEX sending_callbacks ON callbacks (process) WHERE state = 'sending';
"""
# ``charged``: what must not be charged a second time, like the pages of a job that is opened again.
QUOTAS = """
CREATE TABLE IF NOT EXISTS used (
    client TEXT,
    quota TEXT,
    ends BIGINT,
    amount BIGINT NOT NULL,
    PRIMARY KEY (client, quota, ends)
);
CREATE TABLE IF NOT EXISTS charged (
    reference TEXT,
    quota TEXT,
    ends BIGINT,
    PRIMARY KEY (reference, quota)
);
"""


def statements(tables: str, *, sqlite: bool) -> list[str]:
    """Each statement of ``tables``. WITHOUT ROWID: SQLite keeps the rows by their keys, without numbers of its own."""
    return (tables.replace("\n);", "\n) WITHOUT ROWID;") if sqlite else tables).rstrip().removesuffix(";").split(";\n")
