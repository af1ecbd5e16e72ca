# SPDX-License-Identifier: Apache-2.0
"""scripts/audit_requirements.sh with planted advisories: what is affected is found, and no source is no success."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from bundle.environments import advisories
from bundle.environments.advisories import accepted, in_range, is_affected, pins
from tests.support.paths import ROOT
from tool_errors import ServiceError, ToolError, UsageError

PARSER = dict(pins((ROOT / "config/requirements/parser.txt").read_text()))


def planted(identity: str, package: str, *events: dict[str, str], **more: object) -> dict:
    affected = {
        "package": {"ecosystem": "PyPI", "name": package},
        "ranges": [{"type": "ECOSYSTEM", "events": [*events]}],
    }
    return {"id": identity, "summary": "planted", "affected": [affected], **more}


def audit(source: str, *locks: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts/audit_requirements.sh", *locks],
        env={**os.environ, "ADVISORIES": source},
        capture_output=True,
        text=True,
        check=False,
    )


def folder(tmp_path: Path, *records: dict) -> Path:
    for one in records:
        (tmp_path / f"{one['id']}.json").write_text(json.dumps(one))
    return tmp_path


def test_an_affected_pin_is_found_in_a_folder_and_in_an_archive(tmp_path: Path):
    version = PARSER["pillow"]
    source = folder(
        tmp_path,
        planted("GHSA-plan-ted-1", "Pillow", {"introduced": "0"}, {"last_affected": version}, aliases=["CVE-2026-1"]),
        planted("GHSA-plan-ted-2", "pillow", {"introduced": "0"}, {"fixed": version}),
        planted("GHSA-plan-ted-3", "pillow", {"introduced": "0"}, withdrawn="2026-01-01T00:00:00Z"),
    )
    for place in (source, zipped(source)):
        result = audit(str(place), "parser")
        assert result.returncode == 1, result.stderr
        (line,) = result.stdout.splitlines()
        assert line == f"pillow=={version} (parser): GHSA-plan-ted-1 CVE-2026-1: planted; fixed in no version yet"


def zipped(source: Path) -> Path:
    path = source / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in source.glob("*.json"):
            archive.write(file, file.name)
    return path


def test_nothing_found_is_success_and_says_what_was_checked(tmp_path: Path):
    source = folder(tmp_path, planted("GHSA-plan-ted-4", "no-such-package", {"introduced": "0"}))
    result = audit(str(source))
    assert result.returncode == 0 and result.stdout == ""
    assert "0 open advisories" in result.stderr
    count = len([*(ROOT / "config/requirements").glob("*.txt")])
    assert f"of {count} locks" in result.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is not there"),
        ({}, "holds no record"),
        ({"a.json": "{}"}, "no OSV record"),
        ({"a.json": "["}, "cannot be read"),
        ({"a.json": '{"id": "x", "affected": [{"package": {"ecosystem": "npm", "name": "a"}}]}'}, "holds no record"),
    ],
)
def test_a_source_that_cannot_be_read_is_no_success(
    tmp_path: Path, content: dict[str, str] | None, words: str, monkeypatch: pytest.MonkeyPatch
):
    source = tmp_path / "advisories"
    if content is not None:
        source.mkdir()
        for name, text in content.items():
            (source / name).write_text(text)
    monkeypatch.setitem(advisories.VALUES, "ADVISORIES", str(source))
    with pytest.raises(ServiceError, match=f"{words}.*nothing was checked"):
        advisories.audit(["parser"], datetime.date.today())


def test_without_a_source_or_an_address_that_answers_there_is_no_success(monkeypatch: pytest.MonkeyPatch):
    result = audit("", "parser")
    assert result.returncode == ServiceError.exit_status == 4 and "ADVISORIES is not set" in result.stderr

    def refused(source: str, kind: type[ToolError], words: str, *locks: str) -> None:
        monkeypatch.setitem(advisories.VALUES, "ADVISORIES", source)
        with pytest.raises(kind, match=words):
            advisories.audit(locks, datetime.date.today())

    # A port that nobody listens on.
    refused("https://127.0.0.1:9/all.zip", ServiceError, "cannot be reached")
    refused("http://127.0.0.1:9/all.zip", UsageError, "begins with https")
    refused("x", UsageError, "no lock 'no-such-lock'", "no-such-lock")


def test_an_accepted_advisory_counts_until_its_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    source = folder(tmp_path, planted("GHSA-plan-ted-5", "pillow", {"introduced": "0"}, aliases=["CVE-2026-5"]))
    file = tmp_path / "accepted.toml"
    file.write_text('["CVE-2026-5"]\nreason = "no GIF is read"\nuntil = 2026-06-01\n')
    monkeypatch.setattr(advisories, "ACCEPTED", file)
    monkeypatch.setitem(advisories.VALUES, "ADVISORIES", str(source))
    assert advisories.audit(["parser"], datetime.date(2026, 5, 31)) == 0
    assert "accepted: no GIF is read" in capsys.readouterr().out
    assert advisories.audit(["parser"], datetime.date(2026, 6, 1)) == 1
    file.write_text('["CVE-2026-5"]\nreason = ""\nuntil = 2026-06-01\n')
    with pytest.raises(UsageError, match="CVE-2026-5 needs a reason"):
        accepted(file, datetime.date.today())


@pytest.mark.parametrize(
    ("version", "inside"),
    [
        ("0.9", False),
        ("1.0rc1", False),
        ("1.0", True),
        ("1.4.9", True),
        ("1.5", False),
        ("2.0", True),
        ("2.0.1", False),
    ],
)
def test_ranges_follow_osv(version: str, inside: bool):
    """Two ranges in one list of events, in any order; the second ends with its last affected version."""
    events = [{"fixed": "1.5"}, {"introduced": "1.0"}, {"last_affected": "2.0"}, {"introduced": "2.0rc1"}]
    assert in_range(events, Version(version)) is inside
    affected = {"ranges": [{"type": "ECOSYSTEM", "events": events}, {"type": "GIT", "events": [{"introduced": "0"}]}]}
    assert is_affected(affected, version) is inside
    assert is_affected({"versions": [version]}, version)


def test_every_pin_is_read():
    for lock in (ROOT / "config/requirements").glob("*.txt"):
        entries = [line for line in lock.read_text().splitlines() if line[:1] not in ("", "#", " ")]
        assert len(pins(lock.read_text())) == len(entries) > 0
    assert dict(pins("torch==2.8.0+cpu \\\n    --hash=sha256:0\n")) == {"torch": "2.8.0"}
