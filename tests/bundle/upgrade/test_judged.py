# SPDX-License-Identifier: Apache-2.0
"""A version is judged before it takes the place of the one that serves, and both serve one model.

The engine and the driver are simulated (tests/support/simulated_dies.py).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bundle.compose import judged, project, served_model, upgrade
from tests.support.simulated_dies import SimulatedDies, settings
from tests.support.weights import make_weights
from tool_errors import ServiceError, UsageError


def test_a_version_that_did_not_pass_is_not_promoted(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch):
    """It would take the place of the one that serves, while it serves nobody itself."""

    def differs(_: str) -> None:
        raise ServiceError("vlm-next does not compute what was recorded for its weights")

    monkeypatch.setattr(upgrade, "judge", differs)
    with pytest.raises(ServiceError):
        upgrade.start(5, pause=True)
    with pytest.raises(UsageError, match=r"did not pass scripts/upgrade.sh start, .*upgrade.sh back"):
        upgrade.promote(5)
    assert node.containers["vlm"]["image"] == "sha256:old"


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [(0, "PASS 8100\n", None), (1, "PASS 8100\nFAIL 8101: text differs\n", "FAIL 8101: text differs"), (2, "", None)],
)
def test_a_version_is_judged_by_each_of_its_replicas(
    monkeypatch: pytest.MonkeyPatch, capsys, status: int, said: str, words: str | None
):
    """Without recorded values one block is read, as vlm reads it, with a warning."""
    answer = subprocess.CompletedProcess([], status, said, "first\nnothing is recorded\n")
    monkeypatch.setattr(project, "compose", lambda *_, **__: answer)
    monkeypatch.setattr(judged, "one_block", lambda service: "A sentence.")
    monkeypatch.setattr(project, "containers", lambda: {"vlm": {"Health": "healthy"}})
    if words:
        with pytest.raises(ServiceError, match=f"vlm-next does not compute what was recorded for its weights: {words}"):
            judged.judge("vlm-next")
    else:
        judged.judge("vlm-next")
        warned = "WARNING: vlm-next was judged by one block alone: nothing is recorded" in capsys.readouterr().err
        assert warned == bool(status)


def read(text: str, error: str = "") -> str:
    return json.dumps([{"replica": 0, "text": text, "seconds": 1.0, "error": error}])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"vlm": read("A sentence."), "vlm-next": read("A sentence.")}, None),
        ({"vlm": read("A sentence."), "vlm-next": read("the the the")}, "reads 'the the the' where vlm reads 'A sent"),
        ({"vlm": read("A sentence."), "vlm-next": read("", "read nothing")}, "vlm-next, replica 0: read nothing"),
        ({"vlm": read("A sentence."), "vlm-next": "Traceback"}, "vlm-next could not be asked to read: Traceback"),
        ({"vlm": "", "vlm-next": read("A sentence.")}, None),
    ],
)
def test_without_recorded_values_both_versions_read_one_block_alike(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], words: str | None
):
    """A version that answers its health check and reads nonsense would get half of the calls, and be promoted."""

    def compose(*called: str, **_: object) -> subprocess.CompletedProcess[str]:
        module = called[called.index("-m") + 1]
        return subprocess.CompletedProcess([], 2, "" if module == "selftest" else said[called[2]], "")

    monkeypatch.setattr(project, "compose", compose)
    monkeypatch.setattr(project, "containers", lambda: {"vlm": {"Health": "healthy"}})
    if words:
        with pytest.raises(ServiceError, match=words):
            judged.judge("vlm-next")
    else:
        judged.judge("vlm-next")


@pytest.mark.parametrize(
    ("told", "model"),
    [
        ('{"data": [{"root": "/models/a/b"}]}', "a/b"),
        ('{"data": [{"root": "/elsewhere/a"}]}', ""),
        ('{"data": [{"root": null}]}', ""),
        ('{"data": []}', ""),
        ("Connection refused", ""),
    ],
)
def test_the_model_that_a_container_serves(monkeypatch: pytest.MonkeyPatch, told: str, model: str):
    monkeypatch.setattr(project, "compose", lambda *_, **__: subprocess.CompletedProcess([], 0, told, ""))
    assert served_model.served("vlm") == model


def test_both_containers_must_serve_one_model(node: SimulatedDies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The parser asks for one by name, and half of its calls would get 404. Where VLM_MODEL is unset, weights that were
    fetched since vlm started are what a new container takes."""
    make_weights(tmp_path / "models/PaddleOCR-VL")
    values = {"MODELS_DIR": str(tmp_path / "models"), "VLM_MODEL": ""}
    monkeypatch.setattr(upgrade, "VALUES", values)
    running = node.containers
    running["vlm"]["root"] = "/models/PaddleOCR-VL"
    node.change(containers=running)
    make_weights(tmp_path / "models/PaddleOCR-VL-1.5", "PaddleOCR-VL-1.5-0.9B")
    with pytest.raises(
        UsageError,
        match=r"vlm serves PaddleOCR-VL, .* would serve PaddleOCR-VL-1.5.*Set VLM_MODEL=PaddleOCR-VL ",
    ):
        upgrade.start(5, pause=True)
    assert node.containers == running
    settings(node, monkeypatch, **{**values, "VLM_MODEL": "PaddleOCR-VL"})
    upgrade.start(5, pause=True)
    # Neither container finds its model anew: the version before had none named, and newer weights are there.
    assert {name: one["env"]["VLM_MODEL"] for name, one in node.containers.items()} == dict.fromkeys(
        ("vlm", "vlm-next"), "PaddleOCR-VL"
    )
    made = node.containers
    made["vlm"] |= {"root": "/models/PaddleOCR-VL", "env": {**made["vlm"]["env"], "VLM_MODEL": ""}}
    node.change(containers=made)
    monkeypatch.setattr(upgrade, "VALUES", values)
    with pytest.raises(UsageError, match=r"Set VLM_MODEL=PaddleOCR-VL "):
        upgrade.promote(5)
    upgrade.back(5, pause=False)
    assert node.containers["vlm"]["env"]["VLM_MODEL"] == "PaddleOCR-VL"
