# SPDX-License-Identifier: Apache-2.0
"""What a release says of its sources: the notes, the archive, the bill of materials, which the same commit gives again,
and the provenance of its files."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bundle import origin
from bundle.environments.environment import split_entries
from bundle.files import as_json
from bundle.image_build.bill import VENDOR, Component, bill, component, web_libraries
from bundle.paths import REQUIREMENTS, ROOT
from bundle_version import VERSION
from tool_errors import UsageError

STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")


def notes() -> str:
    """The changelog's section of this version. Raises UsageError where there is none."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(VERSION)}\b.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not found or not found[1].strip():
        raise UsageError(f"CHANGELOG.md has no section `## {VERSION}`; write what is new and how to upgrade")
    return f"# {VERSION}\n\n{found[1].strip()}\n"


def archive(made_from: origin.Origin) -> bytes:
    """The commit's files as a gzipped tar in one folder, with `origin.json` as its first file."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", f"--prefix={origin.NAME}/", made_from.revision]
    files = subprocess.run(command, capture_output=True, check=True).stdout
    said = made_from.text().encode()
    whole = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(files)) as tar, tarfile.open(fileobj=whole, mode="w") as out:
        info = tarfile.TarInfo(f"{origin.NAME}/{origin.FILE}")
        info.size, info.mode, info.mtime = len(said), 0o644, max(member.mtime for member in tar)
        out.addfile(info, io.BytesIO(said))
        for member in tar:
            out.addfile(member, tar.extractfile(member) if member.isfile() else None)
    return gzip.compress(whole.getvalue(), mtime=0)


def pins() -> Iterator[Component]:
    """Every package that a lock names, with the environments that it is for."""
    for lock in sorted(REQUIREMENTS.glob("*.txt")):
        for entry in split_entries(lock.read_text(encoding="utf-8")):
            if found := PIN.match(entry):
                name, version = re.sub(r"[-_.]+", "-", found[1]).lower(), found[2]
                place = [{"name": "paddleocr-vl:environment", "value": lock.stem}]
                yield component("library", name, version, f"pkg:pypi/{name}@{version}", properties=place)


def bill_of_sources() -> dict[str, Any]:
    """What the sources bring along and what their locks fetch; the images' bills say what was built of it."""
    return bill("paddleocr-vl", VERSION, [*pins(), *web_libraries(ROOT / VENDOR)])


def as_files(folder: Path, made_from: origin.Origin) -> None:
    """Write notes, archive and bill into a folder."""
    (folder / f"{origin.NAME}-notes.md").write_text(notes(), encoding="utf-8")
    (folder / f"{origin.NAME}-source.tar.gz").write_bytes(archive(made_from))
    (folder / f"{origin.NAME}-source.cdx.json").write_bytes(as_json(bill_of_sources(), indent=1))


def statement(
    made_from: origin.Origin, subjects: Mapping[str, str], parameters: Mapping[str, Any], began: str, ended: str
) -> dict[str, Any]:
    """Where a release's files come from, as an in-toto Statement (v1) with SLSA's provenance (v1) as its predicate.

    `subjects` are names with a SHA-256 in hex: a file's own, and of an image that of its layers (`engine.layers`).
    `parameters` are what the caller chose; the two times are RFC 3339, in UTC.
    """
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                # Both are explained in the source itself, at that commit.
                "buildType": f"{made_from.source}#docs/decisions/0421-a-release-has-a-name.md",
                "externalParameters": {"version": made_from.version, **parameters},
                "resolvedDependencies": [
                    {
                        "uri": f"git+{made_from.source}@{made_from.revision}",
                        "digest": {"gitCommit": made_from.revision},
                    }
                ],
            },
            "runDetails": {
                "builder": {"id": f"{made_from.source}#scripts/release.sh"},
                "metadata": {"startedOn": began, "finishedOn": ended},
            },
        },
    }
