# SPDX-License-Identifier: Apache-2.0
"""A site's one file of apt sources serves images of several releases: each takes the lines that name its own, in place
of its own sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.images.project import Project
from tests.support.engine import base_image
from tests.support.paths import ROOT

SCRIPT = ROOT / "operations/bundle/image_build/install_system.sh"
BOOKWORM = "deb http://archive.example/debian bookworm main\ndeb http://archive.example/debian bookworm-updates main\n"
JAMMY = "deb http://archive.example/ubuntu jammy main universe\n"
# In the place of apt-get: of an update it shows what apt would read.
APT = """#!/bin/sh
case "$*" in *" update") ;; *) exit ;; esac
/usr/bin/apt-get "$@" --print-uris | cut -d "'" -f 2 | grep InRelease
"""
OWN = "rm -rf /etc/apt/sources.list.d/*; echo 'deb http://own.example/debian bookworm main' >/etc/apt/sources.list"
SITE = {f"http://archive.example/debian/dists/{suite}/InRelease" for suite in ("bookworm", "bookworm-updates")}
NONE = "APT_SOURCES has no line `deb ... bookworm ...`; the image's own sources are used"


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (f"# The site's mirror, bookworm and jammy.\n{JAMMY}{BOOKWORM}", SITE),
        (JAMMY, {NONE, "http://own.example/debian/dists/bookworm/InRelease"}),
    ],
    ids=["both", "another release only"],
)
def test_an_image_takes_the_lines_of_its_release(engine, tmp_path: Path, sources: str, expected: set[str]):
    (tmp_path / "sources").write_text(sources)
    apt = tmp_path / "apt-get"
    apt.write_text(APT)
    apt.chmod(0o755)
    mounts = {SCRIPT: "/install.sh", tmp_path / "sources": "/run/secrets/apt_sources", apt: "/usr/local/bin/apt-get"}
    volumes = [word for source, target in mounts.items() for word in ("--volume", f"{source}:{target}:ro")]
    script = f"{OWN}; /install.sh vlm 2>&1 && ls /etc/apt/sources.list.d"
    project = Project("paddleocr-vl-sources", dict(engine.environment))
    output = project.printed(base_image.NAME, "sh", "-c", script, options=volumes)
    assert set(output.splitlines()) == expected, "the list must be gone at the end"
