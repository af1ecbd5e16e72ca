# SPDX-License-Identifier: Apache-2.0
"""Where the files of jobs lie: in the data directory, or in a bucket that parsers on several machines share."""

from __future__ import annotations

from pathlib import Path

from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.job_folders import JobFolders


def open_files(root: Path, min_free_mib: int, storage_url: str, copies: Path | None) -> JobFiles:
    """``storage_url``: "" for folders below ``root``, else ``s3://bucket/prefix``, with a folder for local ``copies``.

    Raises OSError, NotReady.
    """
    if not storage_url:
        return JobFolders(root, min_free_mib)
    from docparser.jobs.storage.job_objects import JobObjects  # boto3 is loaded only where it is used

    root.mkdir(parents=True, exist_ok=True, mode=0o700)  # keys of clients stay there
    return JobObjects(storage_url, copies)
