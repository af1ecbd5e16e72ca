# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of everything that reads what strangers send, two families at a time: FUZZ_INPUTS inputs of
each, and FUZZ_SECONDS at most.

A run repeats the search of FUZZ_SEED, however fast the machine is, so that it fails by what was changed and not by
chance. A longer search, or another: ``FUZZ_INPUTS=0 FUZZ_SECONDS=400 FUZZ_SEED=2 scripts/test.sh fuzz -k campaign``.
What a campaign finds lies in .run/fuzz/FAMILY. The input goes to ``tests/fuzz/findings/FAMILY`` with the mend.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import open_findings, targets
from tests.fuzz.choices import Choices
from tests.fuzz.verdict import judge
from tests.support.paths import ROOT, python_of
from tests.support.processes import PYTHONPATH

SECONDS = float(os.environ.get("FUZZ_SECONDS") or 10)
INPUTS = os.environ.get("FUZZ_INPUTS") or "600"
SEED = os.environ.get("FUZZ_SEED") or "1"
FOLDER = Path(__file__).parent / "findings"
FINDINGS = sorted(path for path in FOLDER.glob("*/*") if path.is_file())
OUT = ROOT / ".run/fuzz"
# The imports, and each family's last input, which may take its time.
SLACK_S = 900


def packages_of(environment: str) -> Path | None:
    """The folder of an environment's packages; None where it is not made."""
    return next(python_of(environment).parents[1].glob("lib/python3*/site-packages"), None)


@pytest.fixture(scope="session")
def campaigns(request: pytest.FixtureRequest) -> dict[str, int]:
    """How the search of each chosen family has ended, in the parser's Python, with atheris from the environment `fuzz`
    beside its packages."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    chosen = [str(item.callspec.params["family"]) for item in items if "campaigns" in item.fixturenames]
    for family in chosen:
        shutil.rmtree(OUT / family, ignore_errors=True)
        (OUT / family).mkdir(parents=True)
    assert has_atheris(), "the environment fuzz is missing; make it with: scripts/setup_env.sh fuzz"
    places = [PYTHONPATH, *(str(ROOT / name) for name in ("operations", "common", "parser")), str(packages_of("fuzz"))]
    words = ["--seconds", str(SECONDS), "--inputs", INPUTS, "--seed", SEED, "--out", str(OUT)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.campaign", *chosen, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS * len(chosen) + SLACK_S,
        check=False,
    )
    ended = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"family"')]
    assert len(ended) == len(chosen), done.stderr[-3000:]
    return {one["family"]: one["status"] for one in ended}


def has_atheris() -> bool:
    site = packages_of("fuzz")
    return site is not None and any(site.glob("atheris*"))


def findings_of(family: str) -> list[dict[str, str]]:
    """What the campaign has found. Time is measured again without the fuzzer, which makes Python many times slower."""
    found = []
    for path in (OUT / family / "findings").glob("*.json"):
        one = json.loads(path.read_text())
        slow = one["signature"].startswith("TooSlow")
        if not (slow and judge(targets.load(family).target, path.with_suffix("").read_bytes()) is None):
            found.append(one)
    return found


@pytest.mark.skipif(platform.machine() == "aarch64", reason="atheris has no wheels for aarch64")
@pytest.mark.parametrize("family", targets.FAMILIES)
def test_campaign(family: str, campaigns: dict[str, int]):
    said = (OUT / family / "log").read_text(errors="replace")
    new = [one for one in findings_of(family) if not open_findings.covers(family, one["signature"])]
    words = "\n\n".join(f"{one['signature']}\n{one['input'][:500]}\n{one['report'][-1500:]}" for one in new)
    assert not new, f"{OUT / family / 'findings'}:\n{words}"
    assert not list((OUT / family).glob("native-*")), said[-3000:]
    summary = re.search(r'^\{"family".*\}$', said, re.MULTILINE)
    assert summary and campaigns[family] in (0, 1), said[-3000:]
    # It did search: inputs were run, and found branches that the seeds had not.
    assert json.loads(summary[0])["inputs"] > 50 and "NEW " in said, said[-3000:]
    print(summary[0])


@pytest.mark.parametrize("family", targets.FAMILIES)
def test_seeds_are_read(family: str):
    loaded = targets.load(family)
    seeds = loaded.seeds()
    assert len(seeds) >= 3 and len(set(seeds)) == len(seeds)
    found = {report.signature for seed in seeds if (report := judge(loaded.target, seed))}
    assert not [one for one in found if not open_findings.covers(family, one)]


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_once_is_read(path: Path):
    """Inputs that broke something, each mended since."""
    found = judge(targets.load(path.parent.name).target, path.read_bytes())
    assert found is None, f"{found.signature}\n{found.report}"


@pytest.mark.parametrize("finding", [one for one in open_findings.OPEN if one.data], ids=lambda one: one.signature[:60])
def test_open_findings_are_still_open(finding: open_findings.Open):
    """An entry whose code was mended must leave the list, so that the campaign finds it again should it come back."""
    report = judge(targets.load(finding.family).target, finding.data)
    assert report is not None and open_findings.covers(finding.family, report.signature), "mended: take it off the list"


def test_findings_lie_in_folders_of_families():
    assert {path.parent.name for path in FINDINGS} <= set(targets.FAMILIES)
    assert all(path.stat().st_size < 20_000 for path in FINDINGS)
    with pytest.raises(ValueError, match="no family 'x'; expected one of pictures"):
        targets.load("x")


def test_values_are_the_same_for_the_same_bytes():
    data = bytes(range(256)) * 4
    assert Choices(data).text(("a", "b")) == Choices(data).text(("a", "b"))
    assert repr(Choices(data).value()) == repr(Choices(data).value())
    empty = Choices(b"")
    assert (empty.byte(), empty.below(9), empty.text(), empty.take(), empty.more) == (0, 0, "", b"", False)
    texts = {Choices(bytes([number]) * 60).text(("<b>", "|")) for number in range(200)}
    assert len(texts) > 60 and max(map(len, texts)) <= 40_000


def test_atheris_is_beside_the_parsers_packages_only():
    """The parser's image must not get it."""
    assert importlib.util.find_spec("atheris") is None
