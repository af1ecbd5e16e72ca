# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of the containers' data by the guide's commands: into an empty volume, without the database."""

from __future__ import annotations

from pathlib import Path

from tests.images.client import check_job
from tests.images.project import ROOT, Project
from tests.support.docs import blocks
from tests.support.paths import LETTER
from tests.support.png_pdf import pdf_of

CONTAINERS = [block for block in blocks(ROOT / "docs/run.md", "Backup and restore") if "docker" in block]
BACK_UP, RESTORE = CONTAINERS


def run(bundle: Project, commands: str, backup: Path) -> None:
    """As pasted in the repository's root, but for the place of the backup."""
    done = bundle.run("bash", "-euc", commands.replace("backup.tar", str(backup)))
    assert done.returncode == 0, done.stderr[-3000:]


def test_jobs_survive_the_loss_of_the_volume(bundle: Project, tmp_path: Path):
    bundle.wait_ready()
    bundle.wait_healthy("vlm")  # the engine notices later that it serves again, and compose asks the engine
    client = bundle.client
    job = client.submit(pdf_of(LETTER.read_bytes(), 2))
    check_job(client, job, 2)
    results = client.results(job)
    backup = tmp_path / "backup.tar"
    run(bundle, BACK_UP, backup)
    volume = next(mount["Name"] for mount in bundle.inspect("parser")["Mounts"] if mount["Type"] == "volume")
    bundle.compose("rm", "--stop", "--force", "parser", timeout=300)
    bundle.docker("volume", "rm", volume)
    run(bundle, RESTORE, backup)
    bundle.wait_ready()
    check_job(client, job, 2)
    texts = [
        [page["layoutParsingResults"][0]["markdown"]["text"] for page in found]
        for found in (results, client.results(job))
    ]
    assert texts[0] == texts[1]
