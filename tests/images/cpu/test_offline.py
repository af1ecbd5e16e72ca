# SPDX-License-Identifier: Apache-2.0
"""A small set of images saved, removed, and loaded again from the archive as on a machine without network."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest
from conftest import ROOT
from engine import base_image
from project import Project

IMAGE = "paddleocr-vl/offline-test:1"


@pytest.fixture
def archive(build_environment: dict[str, str], tmp_path: Path) -> Path:
    """An archive with one small image, which is gone from the engine afterwards."""
    project = Project("paddleocr-vl-offline", build_environment)
    project.docker("tag", base_image.NAME, IMAGE)
    path = tmp_path / "bundle.tar"
    result = subprocess.run([ROOT / "scripts/offline_bundle.sh", "save", path, "--images", IMAGE], env=build_environment,
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    project.docker("rmi", IMAGE)
    return path


def load(archive: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "scripts/offline_bundle.sh", "load", archive], cwd=archive.parent, env=env,
                          capture_output=True, text=True, check=False)


def test_what_was_saved_is_there_again_and_preflight_has_the_last_word(archive: Path, build_environment: dict[str, str]):
    result = load(archive, build_environment)
    project = Project("paddleocr-vl-offline", build_environment)
    try:
        assert project.docker("image", "inspect", IMAGE, check=False).returncode == 0
        assert result.returncode == 0, result.stdout + result.stderr
        assert "PASS  engine" in result.stdout and "0 FAIL" in result.stdout
        folder = archive.parent / "paddleocr-vl"
        assert (folder / "compose.yaml").is_file() and (folder / "docker-compose").is_file()
        config = project.docker("compose", "--project-directory", str(folder), "-f", str(folder / "compose.yaml"), "config")
        assert "paddleocr-vl/vlm-cpu" in config.stdout
    finally:
        project.docker("rmi", IMAGE, check=False)


def test_a_damaged_archive_loads_nothing(archive: Path, build_environment: dict[str, str], tmp_path: Path):
    damaged = tmp_path / "damaged/bundle.tar"
    damaged.parent.mkdir()
    with tarfile.open(archive) as whole, tarfile.open(damaged, "w") as part:
        for member in whole.getmembers():
            if not member.name.endswith("compose.yaml"):
                part.addfile(member, whole.extractfile(member))
    result = load(damaged, build_environment)
    assert result.returncode == 2 and "compose.yaml is missing or damaged" in result.stderr
    assert Project("x", build_environment).docker("image", "inspect", IMAGE, check=False).returncode != 0
