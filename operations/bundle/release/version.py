# SPDX-License-Identifier: Apache-2.0
"""Where the bundle's version stands besides common/bundle_version.py: in files that cannot read Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bundle.paths import ROOT
from bundle_version import VERSION
from tool_errors import UsageError

# Semantic versioning's numbers and its optional pre-release, as in 0.4.0-rc.1.
PATTERN = r"\d+\.\d+\.\d+(?:-rc\.\d+)?"
IMAGE = rf"paddleocr-vl/(?:parser|corpus|vlm-(?:cpu|a3|a2|310p|\$\{{ATLAS:-a3\}})):({PATTERN})(?!\d)"
# Files below the root, and what in them is a version: the first group.
PLACES = (
    ("common/bundle_version.py", rf'^VERSION = "({PATTERN})"$'),
    ("[cmop]*/pyproject.toml", rf'^version = "({PATTERN})"$'),
    ("Dockerfile.*", rf"^ARG BUNDLE_VERSION=({PATTERN})$"),
    ("compose.yaml", IMAGE),
    ("config/compose/*.yaml", IMAGE),
    ("deploy/kubernetes/**/kustomization.yaml", rf"\bname: paddleocr-vl/.*newTag: ({PATTERN})(?!\d)"),
    ("docs/**/*.md", IMAGE),
    ("tests/images/cpu/snapshots/*.yaml", IMAGE),
)


def places() -> Iterator[tuple[Path, re.Pattern[str]]]:
    """Every file that may name the version, with what it looks like there."""
    for pattern, expression in PLACES:
        for path in sorted(ROOT.glob(pattern)):
            yield path, re.compile(expression, re.MULTILINE)


def named() -> Iterator[tuple[Path, str]]:
    """(file, version) for every place that names one."""
    for path, expression in places():
        for match in expression.finditer(path.read_text(encoding="utf-8")):
            yield path, match[1]


def write(version: str) -> list[Path]:
    """Write another version to every place; returns the files that changed. Raises UsageError for no version."""
    if not re.fullmatch(PATTERN, version):
        raise UsageError(
            f"version {version!r}; expected three numbers, and -rc.N behind a candidate: 0.4.0, 0.4.0-rc.1"
        )
    changed = []
    for path, expression in places():
        text = path.read_text(encoding="utf-8")
        new = expression.sub(
            lambda match: (
                match[0][: match.start(1) - match.start()] + version + match[0][match.end(1) - match.start() :]
            ),
            text,
        )
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed.append(path)
    return changed


def check() -> None:
    """Raise UsageError where a place names another version than common/bundle_version.py."""
    for path, version in named():
        if version != VERSION:
            raise UsageError(
                f"{path.relative_to(ROOT)} names {version}, common/bundle_version.py {VERSION}; "
                f"scripts/release.sh version {VERSION} makes them agree"
            )
