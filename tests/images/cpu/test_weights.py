# SPDX-License-Identifier: Apache-2.0
"""Weights that are missing or wrong stop the VLM container with one clear line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.images.folders import demo_models
from tests.images.project import Project


def run_vlm(project: Project, image: str, models: Path) -> tuple[int, str]:
    """Exit status and output of the VLM image as compose would run it, with these models."""
    held = ("--read-only", "--cap-drop", "ALL", "--tmpfs", "/tmp")
    own = ("--tmpfs", "/run/paddleocr-vl:mode=0700,uid=10001,gid=10001", "--volume", f"{models}:/models:ro")
    result = project.docker("run", "--rm", *held, *own, image, check=False)
    return result.returncode, result.stdout


@pytest.fixture
def project(build_environment: dict[str, str]) -> Project:
    return Project("paddleocr-vl-weights", build_environment)


def errors(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("error:")]


def test_a_changed_byte(project: Project, cpu_images: dict[str, str], tmp_path: Path):
    models = demo_models(tmp_path)
    weights = models / "demo/PaddleOCR-VL/model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    status, output = run_vlm(project, cpu_images["vlm"], models)
    assert status == 2 and len(errors(output)) == 1 and "is damaged" in errors(output)[0]


def test_weights_without_a_manifest_are_remembered(project: Project, cpu_images: dict[str, str], tmp_path: Path):
    """First use says that nobody can tell; a later change is refused. The volume holds what was seen."""
    models = demo_models(tmp_path)
    shutil.copytree(models / "demo/PaddleOCR-VL", models / "PaddleOCR-VL", ignore=shutil.ignore_patterns("SHA256SUMS"))
    volume = "paddleocr-vl-weights-state"
    state = ("--volume", f"{volume}:/var/lib/paddleocr-vl", "--entrypoint", "/opt/venv/vlm/bin/python")
    try:

        def check() -> tuple[int, str]:
            words = ("--volume", f"{models}:/models:ro", cpu_images["vlm"], "-m", "vlm_server", "--check")
            result = project.docker("run", "--rm", *state, *words, check=False)
            return result.returncode, result.stdout

        status, output = check()
        assert status == 0 and "has no SHA256SUMS" in output
        status, output = check()
        assert status == 0 and "agree with their manifest" in output and "has no SHA256SUMS" not in output
        (models / "PaddleOCR-VL/tokenizer.json").write_text("{}")
        status, output = check()
        assert status == 2 and "replaced on purpose" in errors(output)[0]
    finally:
        project.docker("volume", "rm", volume, check=False)
