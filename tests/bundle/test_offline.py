# SPDX-License-Identifier: Apache-2.0
"""The offline archive beside an older one: its folder, what it takes over, what a broken one leaves. The images and the
engine are in tests/images/cpu/test_offline.py."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from bundle import envfile
from bundle.offline import contents, load, takeover
from served_weights.manifest import digest
from tests.support.paths import ROOT
from tool_errors import UsageError

SETTINGS = {"HARDWARE": "cpu", "STACK": "0.13.0"}
FILES = ("compose.yaml", ".env.example", "config/compose/dies/0-15.yaml", "models/README.md")


def make_folder(home: Path, version: str) -> Path:
    """A folder as an archive unpacks to, with a few of its files."""
    folder = home / f"paddleocr-vl-{version}"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    files = {name: digest(folder / name) for name in FILES}
    (folder / contents.MANIFEST).write_text(json.dumps({"settings": SETTINGS, "images": {}, "files": files}))
    return folder


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A folder in use, with settings, chosen dies and weights, and a new one."""
    for name in ("MODELS_DIR", "HARDWARE", "STACK"):
        monkeypatch.delenv(name, raising=False)
    old, new = make_folder(tmp_path, "0.1.0"), make_folder(tmp_path, "0.2.0")
    (old / ".env").write_text("HARDWARE=cpu\nNPU_IDS=2,5\nMODELS_DIR=./models\n")
    (old / "compose.override.yaml").write_text("services: {}\n")
    (old / "config/compose/dies/2,5.yaml").write_text("# chosen\n")
    (old / "config/compose/dies/0-15.yaml").write_text("# what the older version had\n")
    (old / "models/PaddleOCR-VL").mkdir()
    (old / "models/PaddleOCR-VL/model.safetensors").write_bytes(b"weights")
    return old, new


def test_the_folder_carries_the_version():
    assert contents.version() and contents.folder_name() == f"paddleocr-vl-{contents.version()}"


def test_a_new_folder_takes_over_settings_dies_and_weights(folders: tuple[Path, Path]):
    old, new = folders
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    takeover.take_over(old, new, FILES)
    assert (new / ".env").read_text() == (old / ".env").read_text()
    assert (new / "compose.override.yaml").is_file() and (new / "config/compose/dies/2,5.yaml").is_file()
    assert (new / "config/compose/dies/0-15.yaml").read_bytes() == (ROOT / FILES[2]).read_bytes(), "its own version's"
    weights = [folder / "models/PaddleOCR-VL/model.safetensors" for folder in folders]
    assert weights[0].samefile(weights[1]), "on the disk once"
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    takeover.take_over(old, new, FILES)  # a second time, after a failure, changes nothing


def test_weights_elsewhere_stay_there(folders: tuple[Path, Path], tmp_path: Path):
    old, new = folders
    (old / ".env").write_text(f"MODELS_DIR={tmp_path / 'weights'}\n")
    takeover.take_over(old, new, FILES)
    assert not (new / "models/PaddleOCR-VL").exists()


def test_settings_that_differ_are_not_overwritten(folders: tuple[Path, Path]):
    old, new = folders
    (new / ".env").write_text("HARDWARE=ascend\n")
    with pytest.raises(UsageError, match=r"\.env is there and differs"):
        takeover.take_over(old, new, FILES)
    assert (new / ".env").read_text() == "HARDWARE=ascend\n"
    assert not (new / "models/PaddleOCR-VL").exists() and not (new / "compose.override.yaml").exists()


def test_only_another_folder_of_the_bundle_is_taken_over(folders: tuple[Path, Path], tmp_path: Path):
    for wrong in (folders[1], tmp_path / "absent"):
        with pytest.raises(UsageError, match="expected another folder of this bundle"):
            takeover.take_over(wrong, folders[1], FILES)


def test_without_settings_they_are_made_for_the_archives_images(folders: tuple[Path, Path]):
    _, new = folders
    takeover.begin(new, SETTINGS)
    values = envfile.parse((new / ".env").read_text(), {})
    example = envfile.parse((ROOT / ".env.example").read_text(), {})
    assert values == {**example, **SETTINGS}
    (new / ".env").write_text("STACK=0.11.1\n")
    takeover.begin(new, SETTINGS)
    assert (new / ".env").read_text() == "STACK=0.11.1\n"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of a new version; the current folder is an empty one, beside which nothing lies."""
    folder = make_folder(tmp_path / "made", "0.3.0")
    path = tmp_path / "bundle.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(folder, folder.name)
    (tmp_path / "node").mkdir()
    monkeypatch.chdir(tmp_path / "node")
    return path


def test_an_archive_gets_its_folder_when_all_of_it_is_right(archive: Path):
    folder = load.unpack_here(archive)
    assert folder.name == "paddleocr-vl-0.3.0" and load.read_checked(folder)["settings"] == SETTINGS
    assert list(Path.cwd().iterdir()) == [folder]
    with pytest.raises(UsageError, match="is there already"):
        load.unpack_here(archive)


def test_a_damaged_archive_leaves_nothing(archive: Path):
    whole = archive.read_bytes()
    at = whole.index(b"services:")
    for broken in (whole[:at] + b"sErvices:" + whole[at + 9 :], whole[: len(whole) // 2]):
        archive.write_bytes(broken)
        with pytest.raises(UsageError, match="copy"):
            load.unpack_here(archive)
        assert list(Path.cwd().iterdir()) == []
