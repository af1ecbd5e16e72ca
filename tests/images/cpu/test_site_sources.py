# SPDX-License-Identifier: Apache-2.0
"""A site's one file of apt sources serves images of several releases: each takes the lines that name its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.images.project import Project
from tests.support.engine import base_image
from tests.support.paths import ROOT

SCRIPT = ROOT / "operations/bundle/image_build/install_system.sh"
BOOKWORM = "deb http://archive.example/debian bookworm main\ndeb http://archive.example/debian bookworm-updates main\n"
JAMMY = "deb http://archive.example/ubuntu jammy main universe\n"


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (f"# The site's mirror, bookworm and jammy.\n{JAMMY}{BOOKWORM}", BOOKWORM),
        (JAMMY, "APT_SOURCES has no line `deb ... bookworm ...`; the image's own sources are used\n"),
    ],
    ids=["both", "another release only"],
)
def test_an_image_takes_the_lines_of_its_release(engine, tmp_path: Path, sources: str, expected: str):
    (tmp_path / "sources").write_text(sources)
    # In the place of apt-get: it shows what apt would read.
    apt = tmp_path / "apt-get"
    apt.write_text('#!/bin/sh\ncase "$*" in *update*) cat /etc/apt/sources.list.d/site.list ;; esac\n')
    apt.chmod(0o755)
    mounts = {SCRIPT: "/install.sh", tmp_path / "sources": "/run/secrets/apt_sources", apt: "/usr/local/bin/apt-get"}
    volumes = [word for source, target in mounts.items() for word in ("--volume", f"{source}:{target}:ro")]
    words = (*volumes, base_image.NAME, "sh", "-c", "/install.sh vlm && ls /etc/apt/sources.list.d")
    output = Project("paddleocr-vl-sources", dict(engine.environment)).docker("run", "--rm", *words).stdout
    assert output == expected, "the list must be gone at the end"
