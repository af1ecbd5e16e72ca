# SPDX-License-Identifier: Apache-2.0
"""`docker compose --profile corpus run corpus`: a folder of documents, parsed by the image of the corpus tool with the
bundle's VLM server."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from bundle.compose import images
from bundle_version import VERSION
from tests.images.bill import check_bill
from tests.images.conftest import stage
from tests.images.folders import readable
from tests.images.project import Project
from tests.support.paths import DATA

USER = 10001  # of the images
CORPUS = f"paddleocr-vl/corpus:{VERSION}"


@pytest.mark.engine
def test_a_folder_is_parsed_in_a_container(bundle: Project, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    (folder / "in").mkdir(parents=True)
    shutil.copy(DATA / "letter.png", folder / "in")
    (folder / "out").mkdir()
    for path in (readable(folder), *folder.rglob("*")):
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
    check_bill(bundle, CORPUS)
    layers = [
        json.loads(bundle.docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", name).stdout)
        for name in (images.PARSER, CORPUS)
    ]
    shared = len(os.path.commonprefix(layers))
    assert shared >= 3, "system, Debian's packages and the parser's dependencies are one for both"
    assert "1 of 1 document done" in ran.stdout
    told = json.loads((folder / "out/letter.png/letter.json").read_text())
    (page,) = told["pages"]
    assert page["models"]["vlm"]["demo"] is True
    first = json.loads((DATA / "letter.json").read_text())["blocks"][0]["text"]
    assert first.split()[0] in (folder / "out/letter.png/letter.md").read_text()
