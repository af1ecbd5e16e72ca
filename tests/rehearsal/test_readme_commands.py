# SPDX-License-Identifier: Apache-2.0
"""README's commands on a machine that has nothing else: a minimal Debian, a fresh clone, nothing made.

The second command is rehearsed as `scripts/test.sh unit`, and REHEARSAL=whole runs `scripts/test.sh` itself (README
says how long that takes). `scripts/test.sh all` runs outside what was skipped or not chosen here. Root installs from
nothing; the plain user takes the wheels that were unpacked for root. Printed are the seconds and what the root then
takes on the disk; the bars of seconds are for a package registry near by and a machine that does nothing else, so they
are not checked here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle.paths import RUN_DIR
from tests.runner.lanes import FIRST, REHEARSED
from tests.support.bare_root import HOME, USER, BareRoot, Ran, why_not
from tests.support.paths import ROOT

pytestmark = pytest.mark.server
HARD_PATH = f"{HOME}/my docs \"ä\" 'it' 文档 100%"
WHOLE = os.environ.get("REHEARSAL") == "whole"
TITLE = "# Clean Water for the Lower Valley"


def first_command() -> str:
    """The first command of README's section "Try it"."""
    section = (ROOT / "README.md").read_text().partition("## Try it")[2]
    found = re.search(r"```sh\n(.+)\n", section)
    assert found
    return found[1]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[BareRoot]:
    if reason := why_not():
        pytest.skip(reason)
    with BareRoot(tmp_path / "root", RUN_DIR / "bare-root") as bare:
        yield bare


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where root leaves uv's cache for the plain user."""
    place = tmp_path_factory.mktemp("unpacked") / "uv"
    yield place
    shutil.rmtree(place, ignore_errors=True)


def hand_on(unpacked: Path, root: BareRoot) -> None:
    """Give root's cache to the plain user, where that test has run, but for a whole rehearsal."""
    if unpacked.is_dir() and not WHOLE:
        cache = root.folder / HOME.lstrip("/") / ".cache"
        cache.mkdir()
        unpacked.rename(cache / "uv")
        root.run(f"chown --recursive {USER}:{USER} {HOME}/.cache", check=True)


def tell(ran: Ran, what: str, root: BareRoot | None = None) -> None:
    """Print how a command ended, and what `root` takes on the disk: that is counted for seconds."""
    disk = f", {root.used() / 2**30:.1f} GiB in all" if root else ""
    print(f"{what}: {ran.seconds:.0f} s{disk}, status {ran.status}\n{ran.stderr}")
    if ran.status or "flaky: " in ran.stderr:  # stdout has what failed
        print(ran.stdout)


def tell_the_runner(root: BareRoot) -> None:
    """Leave the reports of what was run where the groups that run the same outside find them."""
    place = RUN_DIR / "tests" / REHEARSED
    place.mkdir(parents=True, exist_ok=True)
    for report in (root.folder / "srv/bundle/.run/tests").glob(f"*{FIRST}"):
        shutil.copy(report, place / f"{report.name.removesuffix(FIRST)}.xml")


def the_cause_of_an_engines_end_is_told(root: BareRoot) -> None:
    """vLLM's processes talk through /dev/shm."""
    without = f"mount -t tmpfs -o ro none /dev/shm; {first_command()}; status=$?; umount /dev/shm; exit $status"
    ran = root.run(without, cwd="/srv/bundle")
    tell(ran, "without /dev/shm")
    last = ran.stderr.splitlines()[-1]
    assert ran.status == 4 and re.search(r"vlm ended while starting \(status \d+\): \w*(Error|Exception)", last), last
    assert "See root cause above" not in last


def test_root_on_a_bare_machine(root: BareRoot, unpacked: Path):
    root.clone("/srv/bundle")
    refused = root.run(f"{first_command()} --no-install", cwd="/srv/bundle")
    tell(refused, "without installing")
    assert refused.status == 3 and not refused.stdout and refused.seconds < 10
    assert "run as root: apt-get install -y --no-install-recommends libgomp1 libnuma1" in refused.stderr
    ran = root.run(first_command(), cwd="/srv/bundle")
    tell(ran, "first command", root)
    assert ran.status == 0 and TITLE in ran.stdout
    down = root.run("scripts/run_demo.sh --down", cwd="/srv/bundle")
    assert down.status == 0 and not root.processes()
    the_cause_of_an_engines_end_is_told(root)
    tests = "scripts/test.sh" if WHOLE else "scripts/test.sh unit"
    ran = root.run(tests, cwd="/srv/bundle", timeout=3600)
    tell(ran, tests, root)
    assert ran.status == 0 and re.search(r"^\d+ passed, 0 failed, \d+ skipped$", ran.stdout, re.MULTILINE), ran.stdout
    assert not root.processes()
    tell_the_runner(root)
    if (cache := root.folder / "root/.cache/uv").is_dir():
        cache.rename(unpacked)


def test_a_plain_user_in_a_folder_with_a_hard_name(root: BareRoot, unpacked: Path):
    root.clone(HARD_PATH, user=USER)
    hand_on(unpacked, root)
    refused = root.run(first_command(), user=USER, cwd=HARD_PATH)
    assert refused.status == 3 and "run as root: apt-get install" in refused.stderr and refused.seconds < 10
    command = refused.stderr.rpartition("run as root: ")[2].splitlines()[0]
    root.run(f"apt-get update && {command}", check=True)
    ran = root.run(first_command(), user=USER, cwd=HARD_PATH)
    tell(ran, "first command, plain user")
    assert ran.status == 0 and TITLE in ran.stdout
    second = root.run(f"{first_command()} --out result", user=USER, cwd=HARD_PATH)
    tell(second, "again")
    assert second.status == 0 and TITLE in second.stdout
    down = root.run("scripts/run_demo.sh --down", user=USER, cwd=HARD_PATH)
    assert down.status == 0 and not root.processes()
