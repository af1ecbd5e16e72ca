# SPDX-License-Identifier: Apache-2.0
"""Which weights are served: one resolver, and what launcher, preflight and self-test make of it."""

from __future__ import annotations

import hashlib
import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from bundle import selftest
from bundle.compose import mounted, served_model
from bundle.offline import contents
from bundle.preflight.machine import Finding, Machine
from bundle.preflight.weights import check_weights
from bundle.selftest import folder_of_weights
from bundle.weights import fetch
from served_weights import layout
from served_weights.layout import find_layout, verify_layout
from served_weights.manifest import DEMO_MARK, is_demo, verify, write
from served_weights.settings import WeightSettings
from served_weights.vlm import find_vlm
from tests.support.paths import ROOT
from tests.support.weights import SAFETENSORS, make_weights
from tool_errors import ServiceError, UsageError, WeightsError
from vlm_server.__main__ import choice

CLOSED = "http://127.0.0.1:9/v1"


def settings(models: Path, **env: str) -> WeightSettings:
    return WeightSettings.from_environment({"MODELS_DIR": str(models), "HARDWARE": "cpu", **env})


def make_layout(folder: Path) -> Path:
    """The least that counts as weights of the layout model."""
    folder.mkdir(parents=True)
    for name in layout.FILES:
        (folder / name).write_text(name)
    return folder


def test_published_weights_win_over_demo(tmp_path: Path):
    make_weights(tmp_path / "demo/PaddleOCR-VL")
    demo = find_vlm(settings(tmp_path))
    assert demo.demo and demo.path == tmp_path / "demo/PaddleOCR-VL"
    real = make_weights(tmp_path / "PaddleOCR-VL")
    assert find_vlm(settings(tmp_path)).path == real
    assert not find_vlm(settings(tmp_path)).demo
    assert find_vlm(settings(tmp_path, VLM_MODEL="PaddleOCR-VL", HARDWARE="ascend")).path == real


NEWER = "Global:\n  model_name: PaddleOCR-VL-1.6-0.9B\n"


def make_newer(models: Path) -> Path:
    folder = make_weights(models / "PaddleOCR-VL-1.6")
    (folder / "inference.yml").write_text(NEWER)
    return folder


@pytest.mark.parametrize("hardware", ["cpu", "ascend"])
def test_the_newest_that_is_there_is_served_where_no_model_is_named(tmp_path: Path, hardware: str):
    make_weights(tmp_path / "demo/PaddleOCR-VL")
    older = make_weights(tmp_path / "PaddleOCR-VL")
    chosen = find_vlm(settings(tmp_path, HARDWARE=hardware))
    assert chosen.path == older and choice(chosen, settings(tmp_path)) == (
        "weights: PaddleOCR-VL, since VLM_MODEL is unset; PaddleOCR-VL-1.6 is newer (scripts/fetch_weights.sh hf)"
    )
    newer = make_newer(tmp_path)
    chosen = find_vlm(settings(tmp_path, HARDWARE=hardware))
    assert chosen.path == newer and chosen.model.layout == "PP-DocLayoutV3"
    assert choice(chosen, settings(tmp_path)).endswith("unset; PaddleOCR-VL is there too, and older")
    assert find_vlm(settings(tmp_path, HARDWARE=hardware, VLM_MODEL="PaddleOCR-VL")).path == older


def test_a_half_copied_newer_one_is_no_reason_to_serve_the_older(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    (make_newer(tmp_path) / "config.json").unlink()
    with pytest.raises(WeightsError, match=r"PaddleOCR-VL-1\.6 are incomplete: config\.json is missing"):
        find_vlm(settings(tmp_path))


def test_without_any_the_recommended_one_is_asked_for(tmp_path: Path):
    with pytest.raises(WeightsError, match=r"copy the published weights to .*/PaddleOCR-VL-1\.6 "):
        find_vlm(settings(tmp_path, HARDWARE="ascend"))


def test_an_empty_mount_point_counts_as_absent(tmp_path: Path):
    make_weights(tmp_path / "demo/PaddleOCR-VL")
    (tmp_path / "PaddleOCR-VL").mkdir()
    assert find_vlm(settings(tmp_path)).demo


def test_a_folder_under_models_dir_may_be_named(tmp_path: Path):
    folder = make_weights(tmp_path / "demo/PaddleOCR-VL")
    named = find_vlm(settings(tmp_path, VLM_MODEL="demo/PaddleOCR-VL"))
    assert named.path == folder and named.demo and named.model.served_name == "PaddleOCR-VL-0.9B"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"VLM_MODEL": "PaddleOCR-VL"}, "VLM_MODEL is 'PaddleOCR-VL'"),
        ({"HARDWARE": "ascend"}, "CPU only"),
        ({"VLM_MODEL": "nothing"}, "VLM_MODEL is 'nothing'"),
        ({"VLM_MODEL": "../outside"}, "VLM_MODEL is '../outside'"),
    ],
)
def test_demo_weights_never_stand_in_where_a_model_is_wanted(tmp_path: Path, env: dict[str, str], message: str):
    make_weights(tmp_path / "models/demo/PaddleOCR-VL")
    make_weights(tmp_path / "outside")
    with pytest.raises(WeightsError, match=message):
        find_vlm(settings(tmp_path / "models", **env))


def test_nothing_at_all(tmp_path: Path):
    with pytest.raises(WeightsError, match="copy the published weights to"):
        find_vlm(settings(tmp_path))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("config.json", None, "config.json is missing"),
        ("model.safetensors", None, "no \\*.safetensors"),
        ("model.safetensors", b"version https", "not a safetensors file"),
        ("model.safetensors", b"", "not a safetensors"),
    ],
)
def test_incomplete_weights_are_never_replaced_by_demo(tmp_path: Path, name: str, data: bytes | None, message: str):
    make_weights(tmp_path / "demo/PaddleOCR-VL")
    folder = make_weights(tmp_path / "PaddleOCR-VL")
    (folder / name).unlink() if data is None else (folder / name).write_bytes(data)
    with pytest.raises(WeightsError, match=message):
        find_vlm(settings(tmp_path))


def test_manifest(tmp_path: Path):
    folder = make_weights(tmp_path / "w")
    assert verify(folder) == 0
    good = hashlib.sha256(SAFETENSORS).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{good}  model.safetensors\n")
    assert verify(folder) == 1
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  model.safetensors\n")
    with pytest.raises(WeightsError, match="damaged"):
        verify(folder)
    (folder / "SHA256SUMS").write_text(f"{good}  model.safetensors\n{good}  absent.json\n")
    with pytest.raises(WeightsError, match=r"absent\.json is missing"):
        verify(folder)
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(b'{}').hexdigest()}  config.json\n")
    with pytest.raises(WeightsError, match="not listed"):
        verify(folder)
    (folder / "SHA256SUMS").write_text(f"{good}  ../model.safetensors\n")
    with pytest.raises(WeightsError, match="line 1"):
        verify(folder)


def test_weights_are_hashed_once_and_watched_from_first_use(tmp_path: Path, capsys):
    folder, state = make_weights(tmp_path / "w"), tmp_path / "state"
    assert verify(folder, state) == 3 and "has no SHA256SUMS" in capsys.readouterr().err
    assert verify(folder, state) == 3 and capsys.readouterr().err == ""
    with (folder / "config.json").open("a") as stream:
        stream.write(" ")
    with pytest.raises(WeightsError, match="replaced on purpose"):
        verify(folder, state)


def test_a_file_whose_bytes_change_in_place_is_hashed_again(tmp_path: Path):
    """Its name, its size and its inode stay: only the time says that it is another one."""
    folder, state = make_weights(tmp_path / "w"), tmp_path / "state"
    write(folder)
    verify(folder, state)
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.seek(-1, 2)
        (last,) = stream.read()
        stream.seek(-1, 2)
        stream.write(bytes([last ^ 1]))
    with pytest.raises(WeightsError, match=r"model\.safetensors is damaged"):
        verify(folder, state)


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    """A models.yaml with two models, whose folders have other names."""
    file = tmp_path / "models.yaml"
    file.write_text(
        "default: a\nmodels:\n  a:\n    path: A\n    served_name: a\n    demo: demo/small\n"
        "  b:\n    path: deep/B\n    served_name: b\n"
    )
    return str(file)


def test_models_yaml_is_respected(tmp_path: Path, catalog: str):
    asked = settings(tmp_path, MODELS_CONFIG=catalog)
    small = make_weights(tmp_path / "demo/small")
    assert find_vlm(asked).path == small and find_vlm(asked).demo
    first = make_weights(tmp_path / "A")
    assert find_vlm(asked).path == first and find_vlm(asked).model.name == "a"
    second = settings(tmp_path, MODELS_CONFIG=catalog, VLM_MODEL="b", HARDWARE="ascend")
    with pytest.raises(WeightsError, match="VLM_MODEL is 'b', but there are no weights in .*deep/B"):
        find_vlm(second)
    make_weights(tmp_path / "deep/B")
    assert find_vlm(second).model.served_name == "b"
    inside = make_layout(tmp_path / "deep/B" / layout.DEFAULT)
    assert find_layout(second).path == inside
    with pytest.raises(WeightsError, match="was not found"):
        find_layout(asked)


def test_where_the_layout_model_is_looked_for(tmp_path: Path):
    asked, carried = settings(tmp_path), tmp_path / "image"
    places = [
        tmp_path / "demo" / layout.DEFAULT,
        carried / layout.DEFAULT,
        tmp_path / layout.DEFAULT,
        tmp_path / "PaddleOCR-VL" / layout.DEFAULT,
    ]
    for place in places:
        make_layout(place)
        assert find_layout(asked, carried).path == place, "each goes before those that were there"
    other = settings(tmp_path, LAYOUT_MODEL_DIR=str(make_layout(tmp_path / "other")))
    assert find_layout(other, carried).path == tmp_path / "other"
    assert not find_layout(other, carried).demo and find_layout(settings(tmp_path / "demo"), tmp_path / "demo").demo


@pytest.mark.parametrize(
    ("env", "name"),
    [({"HARDWARE": "ascend"}, "PP-DocLayoutV3"), ({"VLM_MODEL": "PaddleOCR-VL"}, layout.DEFAULT)],
)
def test_the_demo_layout_model_never_stands_in_where_a_model_is_wanted(tmp_path: Path, env: dict[str, str], name: str):
    make_layout(tmp_path / "demo" / layout.DEFAULT)
    with pytest.raises(WeightsError, match=f"{name} was not found.*LAYOUT_MODEL_DIR"):
        find_layout(settings(tmp_path, **env))


def test_what_says_that_weights_are_the_demo(tmp_path: Path):
    assert is_demo("/models/demo/PaddleOCR-VL"), "on another machine the folder says it"
    assert not is_demo("/demo/models/PaddleOCR-VL") and not is_demo("/models/PaddleOCR-VL")
    for name in ("PaddleOCR-VL", layout.DEFAULT):
        tracked = ROOT / "models/demo" / name
        copied = tmp_path / name
        copied.mkdir()
        (copied / "SHA256SUMS").write_bytes((tracked / "SHA256SUMS").read_bytes())
        assert is_demo(tracked) and is_demo(copied), "the manifest says it wherever they lie"
    published = make_weights(tmp_path / "demo/PaddleOCR-VL")
    write(published)
    assert not is_demo(published), "MODELS_DIR may be called demo"
    (published / "SHA256SUMS").write_text(f"{DEMO_MARK}\n")
    assert is_demo(published)


def test_the_layout_model_is_compared_with_its_manifest(tmp_path: Path):
    folder = make_layout(tmp_path / layout.DEFAULT)
    assert verify_layout(folder) == 0
    write(folder)
    assert verify_layout(folder) == 3
    (folder / "inference.yml").write_text("inference.ymL")
    with pytest.raises(WeightsError, match=r"inference\.yml is damaged"):
        verify_layout(folder)
    lines = (folder / "SHA256SUMS").read_text().splitlines()[:1]
    (folder / "SHA256SUMS").write_text("\n".join(lines))
    with pytest.raises(WeightsError, match=r"inference\.pdiparams is not listed in SHA256SUMS"):
        verify_layout(folder)


def checked(models: Path, **values: str) -> list[Finding]:
    return list(check_weights(Machine({"MODELS_DIR": str(models), "HARDWARE": "cpu", **values})))


def preflight(models: Path, **values: str) -> dict[str, str]:
    """Check -> level and what was found, of a CPU machine."""
    return {finding.check: f"{finding.level} {finding.found}" for finding in checked(models, **values)}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("", "hf"),
        ("PaddleOCR-VL-1.6", "hf"),
        ("PaddleOCR-VL", "hf PaddleOCR-VL"),
        ("HunyuanOCR", "hf HunyuanOCR"),
        ("HunyuanOCR-1.0", ""),
        ("tuned", ""),
    ],
)
def test_preflight_names_a_command_that_brings_the_model_that_is_named(
    tmp_path: Path, model: str, words: str, monkeypatch: pytest.MonkeyPatch
):
    fetched: list[Any] = []
    monkeypatch.setattr(fetch, "VALUES", {"MODELS_DIR": str(tmp_path)})
    monkeypatch.setattr(fetch, "fetch", lambda source, _, named, __: fetched.append((source, named.name)))
    found = {finding.check: finding.remedy for finding in checked(tmp_path, VLM_MODEL=model, STACK="0.23.0")}
    if not words:
        assert found["weights"].startswith(f"copy the weights to {tmp_path / model}, or")
        return
    assert found["weights"].startswith(f"scripts/fetch_weights.sh {words} (or modelscope,")
    assert fetch.main(words.split()) == 0 and fetched == [("hf", model or "PaddleOCR-VL-1.6")]


def test_preflight_says_what_up_would_do(tmp_path: Path, catalog: str):
    assert preflight(tmp_path / "absent")["weights"].startswith("FAIL MODELS_DIR: ")
    assert "demo weights" in preflight(tmp_path)["weights"] and preflight(tmp_path)["weights"].startswith("FAIL ")
    make_weights(tmp_path / "demo/PaddleOCR-VL")
    make_layout(tmp_path / "demo" / layout.DEFAULT)
    found = preflight(tmp_path)
    assert found["weights"].startswith("WARN ") and "demo/PaddleOCR-VL would be served" in found["weights"]
    assert found["layout model"].startswith("WARN ")
    assert preflight(tmp_path, HARDWARE="ascend")["weights"].startswith("FAIL there are no weights")
    make_weights(tmp_path / "A")
    inside = f"/models/{Path(catalog).name}"  # as the container sees it
    found = preflight(tmp_path, MODELS_CONFIG=inside)
    assert found["weights"] == f"PASS {tmp_path / 'A'}, no SHA256SUMS to compare with"
    write(tmp_path / "demo" / layout.DEFAULT)
    (tmp_path / "demo" / layout.DEFAULT / "inference.pdiparams").write_text("changed")
    assert preflight(tmp_path, MODELS_CONFIG=inside)["layout model"].startswith("FAIL ")
    carried = make_layout(tmp_path / "source" / layout.DEFAULT)
    assert preflight(tmp_path, LAYOUT_MODEL_SOURCE=str(carried.parent))["layout model"].startswith(f"PASS {carried}")
    for values in ({"HARDWARE": "gpu"}, {"MODELS_CONFIG": "/models/absent.yaml"}):
        assert preflight(tmp_path, **values)["weights"].startswith("FAIL ")
    # A file of the image, or none: a path of this machine says nothing.
    assert preflight(tmp_path, MODELS_CONFIG=catalog) == {
        "weights": f"WARN MODELS_CONFIG is {catalog}, a file inside the containers that cannot be seen here"
    }
    assert preflight(tmp_path, MODELS_CONFIG="config/models.yaml") == preflight(tmp_path)


def test_tools_of_the_host_read_the_containers_models_yaml(
    tmp_path: Path, catalog: str, monkeypatch: pytest.MonkeyPatch
):
    """MODELS_CONFIG=/models/models.yaml is the file in MODELS_DIR, for the self-test, upgrades and archives too."""
    values = {"MODELS_DIR": str(tmp_path), "HARDWARE": "cpu", "MODELS_CONFIG": f"/models/{Path(catalog).name}"}
    folder = make_weights(tmp_path / "A")
    assert folder_of_weights("", mounted.on_host(values)) == folder
    monkeypatch.setattr(contents, "VALUES", values)
    assert {path.parent for path, _ in contents.weight_files()} == {folder}
    monkeypatch.setattr(served_model, "served", lambda *_: "deep/B")
    with pytest.raises(UsageError, match="vlm serves deep/B, and with these settings a new container would serve A"):
        served_model.check("vlm", values)
    unseen = {**values, "MODELS_CONFIG": "/etc/models.yaml"}
    served_model.check("vlm", unseen)
    with pytest.raises(ServiceError, match="/etc/models.yaml cannot be read.*--weights"):
        folder_of_weights("", mounted.on_host(unseen))


def test_the_self_test_records_the_weights_of_the_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Their VLM's port is not published: without --mode docker the remedy is named."""
    folder = make_weights(tmp_path / "PaddleOCR-VL")
    values = {"MODELS_DIR": str(tmp_path), "HARDWARE": "ascend", "VLM_MODEL": "PaddleOCR-VL", "VLM_URL": CLOSED}
    recorded: list[Path] = []

    def record(weights: Path, file: Path, _parser: str) -> int:
        recorded.extend((weights, file))
        return 0

    monkeypatch.setattr(selftest, "VALUES", values)
    monkeypatch.setattr(selftest, "record", record)
    assert selftest.main(["--record", "--mode", "docker"]) == 0
    assert recorded == [folder, folder / "selftest.json"]
    with pytest.raises(ServiceError, match="cannot be reached.*for containers give --mode docker, or.*--weights"):
        selftest.main(["--record"])
    assert selftest.main(["--record", "--weights", str(tmp_path)]) == 0 and recorded[2] == tmp_path


def test_the_self_test_respects_models_yaml(tmp_path: Path, catalog: str):
    values = {"MODELS_DIR": str(tmp_path), "HARDWARE": "ascend", "MODELS_CONFIG": catalog, "VLM_MODEL": "b"}
    with pytest.raises(ServiceError, match="serves /models/deep/B, which is not on this machine.*--weights"):
        folder_of_weights("/models/deep/B", values)
    second = make_weights(tmp_path / "deep/B")
    assert folder_of_weights("/models/deep/B", values) == second
    assert folder_of_weights(str(tmp_path), values) == tmp_path, "what the server names counts where it is there"


def test_settings_that_make_no_sense():
    with pytest.raises(UsageError, match="HARDWARE is 'gpu'; expected one of cpu, ascend"):
        settings(Path("models"), HARDWARE="gpu")


def verify_at_once(barrier: Barrier, folder: Path, state: Path) -> None:
    barrier.wait()
    assert verify(folder, state) == 3


def test_replicas_that_start_at_once_keep_what_they_checked(tmp_path: Path):
    """A file that two of them wrote by one name was gone for the second, which ended the container."""
    (folder := tmp_path / "weights").mkdir()
    for name in ("a.safetensors", "b.json", "c.json"):
        (folder / name).write_bytes(name.encode())
    fork = multiprocessing.get_context("fork")
    for round in range(10):
        state = tmp_path / f"state-{round}"  # without a manifest, both files are made
        barrier = fork.Barrier(8)
        started = [fork.Process(target=verify_at_once, args=(barrier, folder, state)) for _ in range(8)]
        for process in started:
            process.start()
        for process in started:
            process.join()
        assert [process.exitcode for process in started] == [0] * 8
        assert not [path for path in state.rglob("*.part")]


def test_digests_that_cannot_be_kept_cost_the_next_start_time_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """As on a full disk. Nothing is written where nothing is new."""
    (folder := tmp_path / "weights").mkdir()
    (folder / "a.safetensors").write_bytes(b"a")
    write(folder)
    (state := tmp_path / "state").mkdir()
    (state / "verified.json").mkdir()
    assert verify(folder, state) == 1 and "digests are not kept" in capsys.readouterr().err
    (state / "verified.json").rmdir()
    assert verify(folder, state) == 1
    kept = (state / "verified.json").stat().st_mtime_ns
    assert verify(folder, state) == 1 and (state / "verified.json").stat().st_mtime_ns == kept
