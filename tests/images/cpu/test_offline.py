# SPDX-License-Identifier: Apache-2.0
"""A small set of images saved, removed, and loaded again from the archive as on a machine without network."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from bundle import origin
from bundle.image_build.bill import NAME, bill, component
from bundle.offline import bills
from free_ports import free_port
from tests.images.bill import valid_bill
from tests.images.project import Project
from tests.support.docs import blocks
from tests.support.engine import base_image
from tests.support.paths import ROOT

IMAGE = "paddleocr-vl/offline-test:1"
SAVE, LOAD, UPGRADE, _ = blocks(ROOT / "docs/install.md", "Without network")


@pytest.fixture
def archive(build_environment: dict[str, str], tmp_path: Path) -> Path:
    """An archive with one small image, which is gone from the engine afterwards."""
    project = Project("paddleocr-vl-offline", build_environment)
    # As the images' builds end: with a bill of materials.
    text = json.dumps(bill("small", "1", [component("library", "a", "2", "pkg:generic/a@2")]))
    made = f'mkdir -p {bills.HOME} && printf %s "$BILL" > {bills.HOME}/{NAME}'
    container = project.docker(
        "run", "--detach", "--env", f"BILL={text}", base_image.NAME, "sh", "-c", made
    ).stdout.strip()
    project.docker("wait", container)
    project.docker("commit", container, IMAGE)
    project.docker("rm", container)
    path = tmp_path / "bundle.tar"
    done = follow(
        SAVE.replace("--weights", f"--images {IMAGE}"), ROOT, build_environment, {"paddleocr-vl.tar": str(path)}
    )
    assert done.returncode == 0, done.stderr
    project.docker("rmi", IMAGE)
    return path


def load(archive: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts/offline_bundle.sh", "load", archive],
        cwd=archive.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def follow(commands: str, folder: Path, env: dict[str, str], names: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a block of the guide, with the reader's own `names` for those in it."""
    for name, own in names.items():
        commands = commands.replace(name, own)
    return subprocess.run(["bash", "-euc", commands], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_what_was_saved_is_there_again_and_preflight_has_the_last_word(
    archive: Path, build_environment: dict[str, str]
):
    """First on a node that has nothing, then beside the folder in use; no setting comes from the environment."""
    env = {name: value for name, value in build_environment.items() if name not in ("HARDWARE", "STACK", "MODELS_DIR")}
    project = Project("paddleocr-vl-offline", env)
    home, name, port = archive.parent, origin.NAME, str(free_port())
    names = {"paddleocr-vl.tar": archive.name, "paddleocr-vl-VERSION": name, "paddleocr-vl-BEFORE": "paddleocr-vl-0"}
    try:
        result = follow(LOAD, home, env | {"PARSER_PORT": port}, names)
        assert project.docker("image", "inspect", IMAGE, check=False).returncode == 0
        assert result.returncode == 0, result.stdout + result.stderr
        assert "PASS  engine" in result.stdout and "0 FAIL" in result.stdout and "npu-smi" not in result.stdout
        old = (home / name).rename(home / "paddleocr-vl-0")
        with (old / ".env").open("a") as settings:
            settings.write(f"PARSER_PORT={port}\n")
        result = follow(UPGRADE, home, env, names)
        assert result.returncode == 0, result.stdout + result.stderr
        assert f"PASS  port: {port} on" in result.stdout, "preflight reads the settings that were taken over"
        folder = home / name
        assert (folder / ".env").read_text() == (old / ".env").read_text()
        assert (folder / "compose.yaml").is_file() and (folder / "docker-compose").is_file()
        carried = {path.name: valid_bill(path.read_text()) for path in (folder / "bills").iterdir()}
        assert set(carried) == {"archive.cdx.json", "paddleocr-vl_offline-test_1.cdx.json"}
        parts = carried["archive.cdx.json"]["components"]
        (image,) = [part for part in parts if part["type"] == "container"]
        assert (image["name"], image["version"]) == ("paddleocr-vl/offline-test", "1")
        weights = [part["name"] for part in parts if part["type"] == "machine-learning-model"]
        assert weights and all(name.startswith("models/demo/") for name in weights)
        assert [one["name"] for one in carried["paddleocr-vl_offline-test_1.cdx.json"]["components"]] == ["a"]
        config = project.docker(
            "compose", "--project-directory", str(folder), "-f", str(folder / "compose.yaml"), "config"
        )
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
    assert list(damaged.parent.iterdir()) == [damaged], "no part of a folder"
    assert result.returncode == 2 and "compose.yaml is missing or damaged" in result.stderr
    assert Project("x", build_environment).docker("image", "inspect", IMAGE, check=False).returncode != 0


def test_an_image_without_a_bill_of_materials_is_not_saved(build_environment: dict[str, str], tmp_path: Path):
    path = tmp_path / "bundle.tar"
    result = subprocess.run(
        [ROOT / "scripts/offline_bundle.sh", "save", path, "--images", base_image.NAME],
        env=build_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 3 and "has no bill of materials" in result.stderr and "build it again" in result.stderr
    assert list(tmp_path.iterdir()) == []
