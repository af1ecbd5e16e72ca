# SPDX-License-Identifier: Apache-2.0
"""`docker compose --profile corpus run corpus`: a folder of documents, parsed by the image of the corpus tool with the
bundle's VLM server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.images.conftest import stage
from tests.images.project import Project
from tests.support.paths import DATA, ROOT

USER = 10001  # of the images


@pytest.mark.engine
def test_a_folder_is_parsed_in_a_container(bundle: Project, tmp_path: Path) -> None:
    with stage("the wheels of the corpus tool"):
        subprocess.run([ROOT / "scripts/fetch_wheels.sh", "--images", "supervisor", "corpus"], check=True)
    folder = tmp_path / "corpus"
    (folder / "in").mkdir(parents=True)
    shutil.copy(DATA / "letter.png", folder / "in")
    shutil.copy(DATA / "handbook.pdf", folder / "in")
    (folder / "out").mkdir()
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == Path(tmp_path).owner() and path != Path("/") and path.stat().st_uid == os.getuid():
            path.chmod(path.stat().st_mode | 0o711)
        if path.name.startswith("pytest-of"):
            break
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.chown(path, USER, USER)
    env, bundle.env = bundle.env, bundle.env | {"CORPUS_DIR": str(folder)}
    try:
        with stage("building the image of corpus"):
            bundle.compose("--profile", "corpus", "build", "corpus", timeout=2400)
        with stage("parsing a folder"):
            words = ("run", "--rm", "--no-deps", "-T", "corpus", "/corpus/in", "--out", "/corpus/out", "--cpus", "2")
            ran = bundle.compose("--profile", "corpus", *words, timeout=900)
    finally:
        bundle.env = env
    assert "2 of 2 documents done" in ran.stderr
    told = json.loads((folder / "out/letter.png/letter.json").read_text())
    (page,) = told["pages"]
    assert page["models"]["vlm"]["demo"] is True
    assert len(json.loads((folder / "out/handbook.pdf/handbook.json").read_text())["pages"]) >= 2
    expected = json.loads((DATA / "letter.json").read_text())
    text = (folder / "out/letter.png/letter.md").read_text()
    blocks = [block["text"] for block in expected["blocks"] if block.get("text")]
    assert blocks and blocks[0].split()[0] in text
