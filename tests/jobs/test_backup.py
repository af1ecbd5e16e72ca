# SPDX-License-Identifier: Apache-2.0
"""Backup and restore by the guide's commands, without containers. tests/images/cpu/test_backup.py has those for
containers."""

from __future__ import annotations

import shutil
import subprocess

from tests.support.docs import blocks
from tests.support.jobs import JOBS
from tests.support.paths import ROOT
from tests.support.processes import child_environment
from tests.support.samples import blank_pages
from tests.support.wait import wait_for

(COMMANDS,) = [
    block for block in blocks(ROOT / "docs/operations.md", "Backup and restore") if "PARSER_DATA_DIR" in block
]
BACK_UP, RESTORE = COMMANDS.strip().splitlines()


def test_a_backup_of_a_running_service_is_restored_without_the_database(start):
    data = start.folder / "data"

    def run(command: str) -> None:
        env = child_environment(PARSER_DATA_DIR=str(data))
        subprocess.run(["bash", "-euc", command], cwd=start.folder, env=env, check=True, timeout=60)

    data.mkdir()
    keys = "# clients of this service\n"
    (data / "api_keys").write_text(keys)
    (data / "api_keys").chmod(0o600)
    vlm = start.vlm(0.0)
    parser = start.parser(PARSER_PAGES_IN_FLIGHT="2").wait()
    done, cancelled = parser.job(blank_pages(2)), parser.job(blank_pages(1))
    link = parser.ended(done)["resultUrl"]["jsonUrl"]
    parser.ended(cancelled)
    with vlm.holding():
        half = parser.job(blank_pages(3))
        stopped = parser.job(blank_pages(1))
        assert parser.client.delete(f"{JOBS}/{stopped}").status_code == 200
        wait_for(lambda: any(half in line for line in vlm.asked()))
        run(BACK_UP)
    parser.end()
    listed = subprocess.run(
        ["tar", "-tf", "backup.tar"], cwd=start.folder, capture_output=True, text=True, check=True
    ).stdout
    assert "links.key" in listed and "sqlite" not in listed and "/." not in listed
    shutil.rmtree(data)
    run(RESTORE)
    parser = start.parser().wait()
    assert (data / "api_keys").read_text() == keys
    assert parser.ended(done)["docparser"]["pages"]["done"] == 2
    assert parser.ended(half)["docparser"]["pages"]["done"] == 3
    assert parser.state(stopped)["docparser"]["cancelled"]
    assert len(parser.lines(f"{parser.url}{link[link.index('/api') :]}")) == 2, "addresses that are out stay good"
    assert [path for path in data.rglob("*") if path.stat().st_mode & 0o077] == []
