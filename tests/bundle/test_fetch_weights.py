# SPDX-License-Identifier: Apache-2.0
"""Weights from a folder or an archive: fetch copies or unpacks them completely, or not at all."""

from __future__ import annotations

import dataclasses
import functools
import tarfile
from pathlib import Path

import pytest

from bundle import archives
from bundle.weights import fetch as module
from served_weights import placing
from served_weights.catalog import DEFAULT_FILE, Catalog
from served_weights.manifest import NAME, verify
from tool_errors import UsageError

CATALOG = Catalog.load(DEFAULT_FILE)


def fetch(source: str, models: Path, model: str = "PaddleOCR-VL") -> None:
    module.fetch(source, models, CATALOG.models[model], CATALOG)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder in the form of the published weights."""
    folder = tmp_path / "carried/PaddleOCR-VL"
    (folder / "PP-DocLayoutV2").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ 'Assistant: ' }}")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    for name in ("inference.json", "inference.pdiparams", "inference.yml"):
        (folder / "PP-DocLayoutV2" / name).write_text(name)
    return folder


def test_a_folder_is_copied_and_listed(published: Path, tmp_path: Path):
    models = tmp_path / "models"
    fetch(str(published), models)
    assert verify(models / "PaddleOCR-VL") == 6
    assert len((models / "PaddleOCR-VL" / NAME).read_text().splitlines()) == 6
    assert [path.name for path in models.iterdir()] == ["PaddleOCR-VL"]
    (published / "config.json").unlink()
    fetch(str(published), models)  # is there and whole: nothing is touched


def test_the_command_takes_a_folder_and_a_model(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(module, "VALUES", {"MODELS_DIR": str(tmp_path / "models")})
    assert module.main([str(published), "PaddleOCR-VL"]) == 0
    assert verify(tmp_path / "models/PaddleOCR-VL") == 6
    assert module.main([str(published), "PaddleOCR"]) == 2
    assert "error: PaddleOCR: expected one of PaddleOCR-VL, " in capsys.readouterr().err


def test_new_weights_take_the_place_of_others_as_a_whole(published: Path, tmp_path: Path):
    """For all to read, whatever their owner's mask was; what an earlier call has left goes too."""
    target = tmp_path / "models/PaddleOCR-VL"
    for folder in (target, target.with_name(".PaddleOCR-VL.old")):
        folder.mkdir(parents=True)
        (folder / "former").touch()
    (published / "config.json").chmod(0o600)
    (published / "PP-DocLayoutV2").chmod(0o700)
    placing.put_in_place(published, target)
    assert [path.name for path in target.parent.iterdir()] == ["PaddleOCR-VL"] and not (target / "former").exists()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (target, *target.iterdir())}
    assert (modes["config.json"], modes["PP-DocLayoutV2"], modes["PaddleOCR-VL"]) == (0o644, 0o755, 0o755)


def test_an_archive_with_a_folder_around_is_unpacked(published: Path, tmp_path: Path):
    archive = tmp_path / "weights.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(published, "PaddleOCR-VL")
    fetch(str(archive), tmp_path / "models")
    assert (tmp_path / "models/PaddleOCR-VL/PP-DocLayoutV2/inference.yml").is_file()


def test_a_broken_archive_leaves_what_was_there(published: Path, tmp_path: Path):
    archive, models = tmp_path / "weights.tar.gz", tmp_path / "models"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(published, "PaddleOCR-VL")
    archive.write_bytes(archive.read_bytes()[:-60])
    (models / "PaddleOCR-VL").mkdir(parents=True)
    (models / "PaddleOCR-VL/mine").write_text("kept")
    with pytest.raises(UsageError, match="broken"):
        fetch(str(archive), models)
    assert (models / "PaddleOCR-VL/mine").read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("config.json", None, r"config\.json is missing"),
        ("PP-DocLayoutV2/inference.yml", None, "inference.yml"),
        ("model.safetensors", None, "safetensors"),
        ("model.safetensors", b"version https://", "large-file store"),
        (NAME, b"0" * 64 + b"  config.json\n", "is not listed in SHA256SUMS"),
    ],
)
def test_what_is_not_whole_never_gets_its_name(
    published: Path, tmp_path: Path, name: str, data: bytes | None, message: str
):
    (published / name).unlink() if data is None else (published / name).write_bytes(data)
    with pytest.raises(UsageError, match=message):
        fetch(str(published), tmp_path / "models")
    assert not (tmp_path / "models/PaddleOCR-VL").exists()


def test_an_interrupted_copy_goes_on(published: Path, tmp_path: Path):
    part = tmp_path / "models/.PaddleOCR-VL.part"
    part.mkdir(parents=True)
    (part / "config.json").write_text("{")  # half-written by an earlier call
    fetch(str(published), tmp_path / "models")
    assert (tmp_path / "models/PaddleOCR-VL/config.json").read_text() == "{}"


def test_a_source_that_is_nothing(tmp_path: Path):
    with pytest.raises(UsageError, match="expected hf, modelscope, a folder or a tar archive"):
        fetch(str(tmp_path / "absent"), tmp_path / "models")


@pytest.mark.parametrize("name", ["../outside", "/etc/outside"])
def test_a_python_without_filters_unpacks_only_what_stays_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    """Python 3.9 of openEuler 22.03 and 3.11.2 of Debian bookworm, which have no tarfile.data_filter."""
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    good, bad = tmp_path / "good.tar", tmp_path / "bad.tar"
    (tmp_path / "file").write_text("content")
    with tarfile.open(good, "w") as tar:
        tar.add(tmp_path / "file", "folder/file")
    with tarfile.open(bad, "w") as tar:
        info = tarfile.TarInfo(name)
        tar.addfile(info)
    archives.unpack(good, tmp_path / "to")
    assert (tmp_path / "to/folder/file").read_text() == "content"
    with pytest.raises(UsageError, match="not a plain file"):
        archives.unpack(bad, tmp_path / "to")
    assert not (tmp_path / "outside").exists()


def test_another_versions_weights_never_get_its_name(published: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="are not PaddleOCR-VL-1.6: the chat template begins an answer with a blank"):
        fetch(str(published), tmp_path / "models", "PaddleOCR-VL-1.6")
    (published / "chat_template.jinja").write_text("{{ 'Assistant:\\n' }}")
    with pytest.raises(UsageError, match="the weights lack PP-DocLayoutV3/inference.json; expected the VLM's folder"):
        fetch(str(published), tmp_path / "models", "PaddleOCR-VL-1.6")
    inside = (published / "PP-DocLayoutV2").rename(published / "PP-DocLayoutV3")
    (inside / "inference.yml").write_text("Global:\n  model_name: PP-DocLayoutV2\n")
    with pytest.raises(UsageError, match="holds PP-DocLayoutV2, but PP-DocLayoutV3 belongs to the VLM"):
        fetch(str(published), tmp_path / "models", "PaddleOCR-VL-1.6")
    (inside / "inference.yml").write_text("Global:\n  model_name: PP-DocLayoutV3\n")
    fetch(str(published), tmp_path / "models", "PaddleOCR-VL-1.6")
    assert verify(tmp_path / "models/PaddleOCR-VL-1.6") == 6


def test_a_folder_of_another_model_is_known_before_it_is_copied(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(module, "VALUES", {"MODELS_DIR": str(tmp_path / "models")})
    assert module.main([str(published)]) == 2
    said = capsys.readouterr().err
    assert "are not PaddleOCR-VL-1.6: the chat template begins" in said
    assert f"run scripts/fetch_weights.sh {published} PaddleOCR-VL\n" in said and not (tmp_path / "models").exists()
    (nothing := tmp_path / "nothing").mkdir()
    assert module.main([str(nothing)]) == 2
    assert "which version they are; give the folder or archive" in capsys.readouterr().err
    with tarfile.open(tmp_path / "weights.tar", "w") as tar:
        tar.add(published, "PaddleOCR-VL")
    assert module.main([str(tmp_path / "weights.tar")]) == 2
    assert f"run scripts/fetch_weights.sh {tmp_path / 'weights.tar'} PaddleOCR-VL\n" in capsys.readouterr().err


def test_a_models_yaml_of_ones_own_says_what_is_fetched(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (models := tmp_path / "models").mkdir()
    (models / "own.yaml").write_text("default: Own\nmodels:\n  Own:\n    served_name: own\n    path: tuned\n")
    monkeypatch.setattr(module, "VALUES", {"MODELS_DIR": str(models), "MODELS_CONFIG": "/models/own.yaml"})
    assert module.main([str(published)]) == 0 and verify(models / "tuned") == 6


def test_no_hub_is_asked_for_a_model_that_is_not_at_the_root_of_a_repository(tmp_path: Path):
    with pytest.raises(UsageError, match="copy the weights to HunyuanOCR-1.0 in MODELS_DIR"):
        fetch("hf", tmp_path / "models", "HunyuanOCR-1.0")


def test_a_hub_is_asked_for_each_repository_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The hub's own client is replaced: what it is asked for, and where it puts it."""
    asked: list[list[str]] = []
    monkeypatch.setattr(module, "run_logged", lambda words, *_: asked.append(words[-4:]))
    monkeypatch.setattr(module, "ensure_uv", lambda: Path("uv"))
    for hub, model in (("hf", "PaddleOCR-VL"), ("hf", "PaddleOCR-VL-1.5"), ("modelscope", "PaddleOCR-VL-1.6")):
        placing.gather(CATALOG.models[model], tmp_path, functools.partial(module.download, hub))
    layout = ["PaddlePaddle/PP-DocLayoutV3", "--local-dir", f"{tmp_path}/PP-DocLayoutV3"]
    assert asked == [
        ["download", "PaddlePaddle/PaddleOCR-VL", "--local-dir", str(tmp_path)],
        ["download", "PaddlePaddle/PaddleOCR-VL-1.5", "--local-dir", str(tmp_path)],
        ["download", *layout],
        ["--model", "PaddlePaddle/PaddleOCR-VL-1.6", "--local_dir", str(tmp_path)],
        ["--model", layout[0], "--local_dir", layout[2]],
    ]
    nowhere = dataclasses.replace(CATALOG.models["PaddleOCR-VL"], repository=None)
    with pytest.raises(UsageError, match=r"models\.PaddleOCR-VL lacks the key 'repository', so no hub can be asked"):
        placing.gather(nowhere, tmp_path, lambda *_: None)


@pytest.mark.parametrize("own", ["", "/etc/hubs.pem"])
def test_a_hubs_client_trusts_the_certificates_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str):
    """uv reads SSL_CERT_FILE and fetches the client; the client's requests reads REQUESTS_CA_BUNDLE alone."""
    env = {"SSL_CERT_FILE": "/etc/site.pem", **({"REQUESTS_CA_BUNDLE": own} if own else {})}
    given: list[dict[str, str]] = []
    monkeypatch.setattr(module, "registry_environment", lambda: env)
    monkeypatch.setattr(module, "run_logged", lambda words, log, what, env: given.append(env))
    monkeypatch.setattr(module, "ensure_uv", lambda: Path("uv"))
    module.download("hf", "a/b", tmp_path)
    assert given[0].items() >= {"SSL_CERT_FILE": "/etc/site.pem", "REQUESTS_CA_BUNDLE": own or "/etc/site.pem"}.items()


@pytest.mark.parametrize(("callers", "given"), [({}, "1"), ({"HF_HUB_DISABLE_XET": "0"}, "0")])
def test_a_second_protocol_that_passes_a_mirror_by_is_off_unless_the_caller_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callers: dict[str, str], given: str
):
    found: dict[str, str] = {}
    monkeypatch.setattr(module, "registry_environment", lambda: callers)
    monkeypatch.setattr(module, "run_logged", lambda words, log, what, env: found.update(env))
    monkeypatch.setattr(module, "ensure_uv", lambda: Path("uv"))
    module.download("hf", "a/b", tmp_path)
    assert found["HF_HUB_DISABLE_XET"] == given
