# SPDX-License-Identifier: Apache-2.0
"""The data directory of a running service: removed, replaced, unmounted, read-only. It says so, loses nothing, and goes
on without a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jobs import JobsParser
from tests.support.namespaces import SMALL_DISK, WITH_MOUNTS, works
from tests.support.parser_process import JOBS
from tests.support.processes import child_environment
from tests.support.samples import blank_pages
from tests.support.wait import WAIT_S, wait_for


def says(parser: JobsParser, words: str) -> None:
    """Wait until readiness is false for this reason; a submission and the metrics of the queue are refused too."""

    def unready() -> bool:
        answer = parser.client.get("/health/ready")
        return answer.status_code == 503 and words in answer.json()["errorMsg"]

    wait_for(unready, what=words)
    answer = parser.submit(blank_pages(1))
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0, answer.text
    assert "PARSER_DATA_DIR" in answer.json()["msg"]
    wait_for(lambda: parser.metrics()["docparser_jobs_ready"] == 0)  # as the keeper saw it last
    assert parser.client.get("/health").status_code == 200


def remove_database(data: Path) -> None:
    for path in data.glob("jobs.sqlite3*"):
        path.unlink(missing_ok=True)


def test_nothing_is_lost_by_what_happens_to_the_directory(start):
    start.vlm(0.05)
    parser = start.parser(PARSER_PAGES_IN_FLIGHT="2").wait()
    data, away = start.folder / "data", start.folder / "away"
    ended = parser.job(blank_pages(1))
    parser.ended(ended)
    job_id = parser.job(blank_pages(60))

    def parsed() -> int:
        return parser.state(job_id)["docparser"]["pages"]["done"]

    wait_for(lambda: parsed() >= 5)
    remove_database(data)  # made again from the folders within a second or so
    wait_for(lambda: (data / "jobs.sqlite3").exists())
    parser.wait()
    assert parsed() >= 5, "finished pages stay finished"
    parser.ended(ended)

    (data / "jobs").rename(away)
    says(parser, f"{data / 'jobs'} is missing")
    assert not (data / "jobs").exists()
    away.rename(data / "jobs")
    parser.wait()

    data.rename(away)
    data.mkdir()
    says(parser, "Mount the volume again")
    data.rmdir()
    away.rename(data)
    parser.wait()

    (data / "jobs.sqlite3").rename(start.folder / "ours")
    (data / "jobs.sqlite3").write_text("")
    wait_for(lambda: list(data.glob("jobs.sqlite3.damaged-*")))
    parser.wait()

    state = parser.ended(job_id)
    assert state["state"] == "done" and state["docparser"]["pages"] == {
        "queued": 0,
        "running": 0,
        "done": 60,
        "failed": 0,
    }
    events = parser.client.get(f"{JOBS}/{job_id}/events").text
    assert events.count("event: page") == 60
    new = parser.job(blank_pages(1))
    assert parser.ended(new)["state"] == "done" and parser.metrics()["docparser_jobs_ready"] == 1


MOUNTS = """
import json, subprocess, sys
from pathlib import Path
from tests.jobs.test_storage_away import says
from tests.support.jobs import Start
from tests.support.parser_process import JOBS
from tests.support.samples import blank_pages
folder = Path(sys.argv[1])
source, mounted = folder / "source", folder / "mounted"
source.mkdir(); mounted.mkdir()
def mount(*words):
    subprocess.run(["mount", *words], check=True)
mount("--bind", str(source), str(mounted))
start = Start(folder)
try:
    start.vlm(0.05)
    parser = start.parser(PARSER_DATA_DIR=str(mounted), PARSER_PAGES_IN_FLIGHT="2").wait()
    job_id = parser.job(blank_pages(30))
    parser.wait_for(job_id, lambda state: state.get("extractProgress", {}).get("extractedPages", 0) >= 3)
    subprocess.run(["umount", "--lazy", str(mounted)], check=True)
    says(parser, "Mount the volume again")
    mount("--bind", "-o", "ro", str(source), str(mounted))
    says(parser, "cannot be written")
    mount("-o", "remount,bind,rw", str(mounted))
    parser.wait()
    print(json.dumps(parser.ended(job_id)["docparser"]["pages"]))
finally:
    start.end()
"""


@pytest.mark.skipif(
    not works(*WITH_MOUNTS, *SMALL_DISK), reason="mounts need unshare(1), mount(8) and the right to use them"
)
def test_a_volume_that_is_read_only_or_not_mounted(tmp_path):
    ran = subprocess.run(
        [*WITH_MOUNTS, sys.executable, "-c", MOUNTS, str(tmp_path)],
        text=True,
        capture_output=True,
        timeout=WAIT_S + 120,
        env=child_environment(PATH="/usr/bin:/bin:/usr/sbin:/sbin"),
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"queued": 0, "running": 0, "done": 30, "failed": 0}
