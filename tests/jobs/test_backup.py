# SPDX-License-Identifier: Apache-2.0
"""Backup and restore by the guide's commands, without containers. tests/images/cpu/test_backup.py has those for
containers."""

from __future__ import annotations

import shutil
import subprocess
import sys

from docparser.clients.keys import digest
from tests.support.docs import blocks
from tests.support.jobs import JobsParser
from tests.support.parser_process import JOBS
from tests.support.paths import ROOT
from tests.support.processes import child_environment
from tests.support.samples import blank_pages
from tests.support.wait import wait_for

(COMMANDS,) = [block for block in blocks(ROOT / "docs/run.md", "Backup and restore") if "PARSER_DATA_DIR" in block]
BACK_UP, RESTORE = COMMANDS.strip().splitlines()


def test_a_backup_of_a_running_service_is_restored_without_the_database(start):
    data = start.folder / "data"

    def run(command: str) -> None:
        env = child_environment(PARSER_DATA_DIR=str(data))
        subprocess.run(["bash", "-euc", command], cwd=start.folder, env=env, check=True, timeout=60)

    def used(parser: JobsParser) -> int:
        """Pages that count against the key's quota."""
        (quota,) = parser.client.get("/usage").raise_for_status().json()["result"]["quotas"]
        return quota["used"]

    me = {"Authorization": "Bearer billing-key"}
    data.mkdir(mode=0o700)
    (data / "api_keys").write_text(f"sha256:{digest('billing-key')} name=billing pages=100/month\n")
    (data / "api_keys").chmod(0o600)
    vlm = start.vlm(0.0)
    parser = start.parser(PARSER_PAGES_IN_FLIGHT="2").wait()
    parser.client.headers.update(me)
    done, other = parser.job(blank_pages(2)), parser.job(blank_pages(1))
    links = [parser.ended(done)["resultUrl"]["jsonUrl"]]
    run(f"{sys.executable} -m docparser.link_keys rotate")
    links.append(parser.ended(other)["resultUrl"]["jsonUrl"])
    with vlm.holding():
        half = parser.job(blank_pages(3))
        stopped = parser.job(blank_pages(1))
        assert parser.client.delete(f"{JOBS}/{stopped}").status_code == 200
        wait_for(lambda: any(half in line for line in vlm.asked()))
        before = used(parser)
        run(BACK_UP)
    parser.end()
    listed = subprocess.run(
        ["tar", "-tf", "backup.tar"], cwd=start.folder, capture_output=True, text=True, check=True
    ).stdout
    assert "jobs.sqlite3" not in listed and "/." not in listed
    shutil.rmtree(data)
    run(RESTORE)
    parser = start.parser().wait()
    assert parser.client.get("/usage").status_code == 401, "the keys are there"
    parser.client.headers.update(me)
    assert parser.ended(done)["docparser"]["pages"]["done"] == 2
    assert parser.ended(half)["docparser"]["pages"]["done"] == 3
    assert parser.state(stopped)["docparser"]["cancelled"]
    # Two, one, the three of the job that was half done, and perhaps that of the one that was stopped.
    assert 6 <= before <= used(parser) <= 7, "what was used stays used, and is not counted twice"
    parser.client.headers.pop("Authorization")
    lengths = [len(parser.lines(f"{parser.url}{link[link.index('/api') :]}")) for link in links]
    assert lengths == [2, 1], "addresses that are out stay good, whichever key signed them"
    assert [path for path in data.rglob("*") if path.stat().st_mode & 0o077] == []
