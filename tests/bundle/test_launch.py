# SPDX-License-Identifier: Apache-2.0
"""What a script becomes, with which environment, words and variables."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bundle import launch
from bundle.environments import audit, setup
from bundle.local_mode import keys
from bundle.offline import __main__ as offline
from tests.support.paths import ROOT
from tool_errors import EnvironmentSetupError


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    pythons = {name: tmp_path / name / "bin/python" for name in ("client", "parser", "vlm", "vlm-0.23")}
    made = {name: SimpleNamespace(python=path) for name, path in pythons.items()}
    monkeypatch.setattr(launch, "ENVIRONMENTS", made)
    monkeypatch.setattr(setup, "ENVIRONMENTS", made)
    return pythons


def test_a_tool_runs_in_its_environment(environments: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    became: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *words: became.append(words))
    monkeypatch.setattr(os, "environ", {"PYTHONDONTWRITEBYTECODE": "1", "OWN": "kept", "PYTHONPATH": "/ours:/cann"})
    with pytest.raises(EnvironmentSetupError, match="the environment client is not there .*setup_env.sh client"):
        launch.launch("client", "batch", ["in"])
    assert not became
    (python := environments["client"]).parent.mkdir(parents=True)
    python.touch()
    launch.launch("client", "batch", ["in", "--out", "out"])
    [(program, words, env)] = became
    assert program == python and words == [str(python), "-m", "batch", "in", "--out", "out"]
    assert env == {
        "OWN": "kept",
        # No tool asks a model hub by itself.
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "PLUGIN_PYTHON": f"{environments['vlm']}:{environments['vlm-0.23']}",
        "PYTHONPATH": "/ours:/cann",
    }
    monkeypatch.setattr(os, "environ", {"PLUGIN_PYTHON": "/own/python"})
    for word in ("-h", "--help"):
        launch.launch("reference", "reference.inference", [word])
        assert became[-1][0] == Path(sys.executable) and became[-1][2]["PLUGIN_PYTHON"] == "/own/python"


def test_the_accuracy_tool_asks_the_parser_of_env_with_its_key(
    environments: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    became: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *words: became.append(words))
    monkeypatch.setattr(launch, "VALUES", {"PARSER_BIND": "::", "PARSER_PORT": "8090", "PARSER_API_KEY": "s3cret"})
    launch.launch("reference", "reference.accuracy", ["--parser", "http://own", "--help"])
    [(_, words, env)] = became
    # argparse takes the last one.
    assert words[3:] == ["--parser", "http://[::1]:8090", "--parser", "http://own", "--help"]
    assert env["PARSER_API_KEY"] == "s3cret"


def test_a_corpus_is_read_with_the_vlms_key_of_env(environments: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    became: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *words: became.append(words))
    monkeypatch.setattr(launch, "VALUES", {"PARSER_VLM_API_KEY": "s3cret", "PARSER_API_KEY": "another"})
    launch.launch("corpus", "corpus", ["--help"])
    [(_, words, env)] = became
    assert words[3:] == ["--help"] and env["PARSER_VLM_API_KEY"] == "s3cret" and "PARSER_API_KEY" not in env


@pytest.mark.parametrize(("callers", "after"), [("/cann/tbe:/cann/te", ":/cann/tbe:/cann/te"), ("", ""), (None, "")])
def test_a_tool_keeps_what_cann_puts_on_pythons_path(callers: str | None, after: str, monkeypatch: pytest.MonkeyPatch):
    found = importlib.util.spec_from_file_location("launch_of_scripts", ROOT / "scripts/lib/launch.py")
    assert found and found.loader
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    became: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *words: became.append(words))
    monkeypatch.setattr(os, "environ", {} if callers is None else {"PYTHONPATH": callers})
    monkeypatch.setattr(sys, "argv", ["inference.py", "--device", "npu"])
    script.tool("reference", "reference.inference")
    [(program, words, env)] = became
    assert words == [program, "-m", "bundle.launch", "reference", "reference.inference", "--device", "npu"]
    assert env == {"PYTHONPATH": f"{ROOT}/operations:{ROOT}/common:{ROOT}/model_code{after}"}


def test_keys_are_made_where_the_parser_of_local_mode_reads_them(
    environments: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    became: list[Any] = []
    monkeypatch.setattr(keys, "VALUES", {"PARSER_DATA_DIR": "jobs", "PARSER_RESULT_URL_HOURS": "2"})
    monkeypatch.setattr(keys.os, "chdir", became.append)
    monkeypatch.setattr(keys.os, "umask", became.append)
    monkeypatch.setattr(keys.os, "execve", lambda *words: became.append(words))
    assert keys.main(["api_keys", "list"]) == 3 and not became
    assert "the environment parser is not there" in capsys.readouterr().err
    (python := environments["parser"]).parent.mkdir(parents=True)
    python.touch()
    assert keys.main(["link_keys", "rotate", "--revoke"]) == 0
    folder, mask, (program, words, env) = became
    assert (folder, mask, program) == (ROOT, 0o077, python)
    assert words == [str(program), "-m", "docparser.link_keys", "rotate", "--revoke"]
    assert (env["PARSER_DATA_DIR"], env["PARSER_RESULT_URL_HOURS"], env["HARDWARE"]) == ("jobs", "2", "cpu")
    assert (keys.main(["--help"]), keys.main([]), keys.main(["make"])) == (0, 2, 2) and len(became) == 3


def test_locks_are_audited_in_the_environment_tools(monkeypatch: pytest.MonkeyPatch):
    done: list[Any] = []
    monkeypatch.setattr(audit, "set_up", done.append)
    monkeypatch.setenv("PYTHONPATH", "/ours")

    def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        done.append((words, options["cwd"], "PYTHONPATH" in options["env"]))
        return subprocess.CompletedProcess(words, 7)

    monkeypatch.setattr(audit.subprocess, "run", run)
    assert audit.main(["vlm"]) == 7
    tools = audit.ENVIRONMENTS["tools"]
    assert done == [tools, ([str(tools.python), "-m", "bundle.environments.advisories", "vlm"], ROOT, False)]


@pytest.mark.parametrize(
    ("words", "done"),
    [
        ("save a.tar", [("images", False), ("save", "a.tar", ["ours"], False, None)]),
        ("save a.tar --corpus --weights", [("images", True), ("save", "a.tar", ["ours"], True, None)]),
        ("save a.tar --images x y --sign key", [("save", "a.tar", ["x", "y"], False, Path("key"))]),
        ("save a.tar --to-build aarch64", [("collected", "aarch64", False), ("save", "a.tar", ["bases"], False, None)]),
        (
            "save a.tar --to-build x86_64 --corpus",
            [("collected", "x86_64", True), ("save", "a.tar", ["bases"], False, None)],
        ),
        ("load a.tar", [("signature", None), ("load", "unpacked", None, True)]),
        ("load a.tar --signers who", [("signature", Path("who")), ("load", "unpacked", None, True)]),
        ("load --signers who", []),
        ("load", [("load", ROOT.name, None, False)]),
        ("load a.tar --from old", [("folder", "old"), ("signature", None), ("load", "unpacked", "old", True)]),
        ("load --from old", [("folder", "old"), ("load", ROOT.name, "old", False)]),
    ],
)
def test_the_words_of_the_offline_bundle_reach_their_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, done: list[Any]
):
    found: list[Any] = []
    monkeypatch.chdir(tmp_path)

    def images(corpus: bool) -> list[str]:
        found.append(("images", corpus))
        return ["ours"]

    @contextmanager
    def collected(processor: str, corpus: bool) -> Any:
        found.append(("collected", processor, corpus))
        yield SimpleNamespace(images=["bases"])

    def load(folder: Path, old: Path | None, checked: bool = False) -> int:
        found.append(("load", folder.name, old and old.name, checked))
        return 0

    monkeypatch.setattr(offline.shutil, "which", lambda _: "/usr/bin/docker")
    monkeypatch.setattr(offline, "images", images)
    monkeypatch.setattr(offline.to_build, "collected", collected)
    monkeypatch.setattr(offline, "save", lambda archive, *more: found.append(("save", archive.name, *more[:3])))
    monkeypatch.setattr(offline, "load", load)
    monkeypatch.setattr(offline, "unpack_here", lambda archive: archive.with_name("unpacked"))
    monkeypatch.setattr(offline, "check_signature", lambda archive, signers: found.append(("signature", signers)))
    # The folder in use is another one than that which is made here, or runs here.
    place = tmp_path if "a.tar" in words else ROOT
    monkeypatch.setattr(
        offline.takeover, "check_folder", lambda old, new: found.append(("folder", old.name if new == place else new))
    )
    assert offline.main(words.split()) == (0 if done else 2) and found == done
