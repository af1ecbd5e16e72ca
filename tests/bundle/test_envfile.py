# SPDX-License-Identifier: Apache-2.0
"""How .env is read. tests/images/cpu/test_env_file.py compares the reader with Compose itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bundle import envfile
from bundle.local_mode.settings import LocalSettings
from tests.support import env_texts
from tests.support.paths import ROOT
from tool_errors import UsageError

ENV = {"HOME": "/users/operator", "SET": "s", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Blanks, comments, export, the colon of YAML.
        *(("A=1", "1"), ("A = 1 ", "1"), ("export A=1", "1"), ("A: 1", "1"), ("A=", ""), ("A=1\r\n", "1")),
        *(("A=two words # note", "two words"), ("A=x#y", "x#y"), ("A= # n", "# n"), ("# c\n\n  A=1\n", "1")),
        ("\ufeffA=1", "1"),
        # Quotes.
        *(('A="x # y" # note', "x # y"), ("A='x # y'", "x # y"), ("A='$HOME ${B'", "$HOME ${B"), ('A=x"y"', 'x"y"')),
        *(('A="a\nb"', "a\nb"), (r'A="a\nb\t\\"', "a\nb\t\\"), (r"A='a\nb'", r"a\nb"), (r"A='it\'s'", "it's")),
        *((r'A="say \"x\""', 'say "x"'), (r'A="\$HOME"', "$HOME"), (r'A="\0101\x\09"', r"A\x\09")),
        # Variables.
        *(("A=$HOME/models", "/users/operator/models"), ('A="${HOME}/m"', "/users/operator/m"), ("A=$UNSET/x", "/x")),
        *(("A=$$HOME", "$HOME"), ("A=5$ $5", "5$ $5"), ("B=b\nA=$B${B}", "bb"), ("SET=mine\nA=$SET", "s")),
        *(("A=${EMPTY:-d}", "d"), ("A=${EMPTY-d}", ""), ("A=${UNSET-d}", "d"), ("A=${SET:-d}", "s")),
        *(("A=${SET:+w}", "w"), ("A=${EMPTY:+w}", ""), ("A=${EMPTY+w}", "w"), ("A=${UNSET+w}", "")),
        *(("A=${SET:?no}", "s"), ("A=${EMPTY?no}", ""), ("A=${SET:-${UNSET?no}}", "s")),
        *(("A=${UNSET:-${SET}/$HOME}/x", "s//users/operator/x"), ("A=${UNSET:-a{b}c} ${SET:-d}", "a{b}c s")),
    ],
)
def test_a_value(text: str, value: str):
    assert envfile.parse(text, ENV)["A"] == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\nVLM_PORT 9000\n", ".env, line 2: 'VLM_PORT 9000' is not KEY=VALUE"),
        ("A B=1", ".env, line 1: 'A B=1' is not KEY=VALUE"),
        ("\n\nA!=1", ".env, line 3: 'A!=1' is not KEY=VALUE"),
        ("=1", ".env, line 1: '=1' is not KEY=VALUE"),
        ('A="x\ny\nB=1', '.env, line 1: the quote " is not closed'),
        ("A='a\nb'\nB=${\n", ".env, line 3: ${ begins no variable"),
        ("A=${UNSET:?set it to $HOME}", ".env, line 1: UNSET is required: set it to /users/operator"),
        ("A=${EMPTY:?}", ".env, line 1: EMPTY is required"),
    ],
)
def test_what_compose_refuses_is_refused_with_its_line(text: str, message: str):
    with pytest.raises(UsageError) as caught:
        envfile.parse(text, ENV)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        *(("A=pa$word", True), ("A=pa${word}", True), ('A="pa$word"', True), ("A=${SET}$word", True)),
        *(("A=${UNSET:-$word}", True), ("A=x${SET}${word}", True)),
        *(("A='pa$word'", False), ("A=pa$$word", False), (r'A="pa\$word"', False), ("A=$SET$EMPTY", False)),
        *(("A=${UNSET:-d}${UNSET+w}", False), ("B=b\nA=$B", False), ("A=5$ $5", False)),
    ],
)
def test_a_value_that_names_a_variable_which_is_not_set_is_marked(text: str, cut: bool):
    assert isinstance(envfile.parse(text, ENV)["A"], envfile.Cut) == cut


def test_a_name_alone_takes_the_environments_value():
    assert envfile.parse("HOME\nexport SET\nUNSET\n", ENV) == {"HOME": "/users/operator", "SET": "s"}


def test_the_environment_wins(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SET", "s")
    (tmp_path / ".env").write_text("SET=mine\nA=$SET\n")
    found = envfile.merged(tmp_path / ".env")
    assert (found["SET"], found["A"]) == ("s", "s") and "A" not in envfile.merged(tmp_path / "absent")


def test_home_never_becomes_a_folder_of_that_name(tmp_path: Path):
    (tmp_path / ".env").write_text("MODELS_DIR=$HOME/models\n")
    said = envfile.read(tmp_path / ".env", {"HOME": "/h"})
    assert LocalSettings.of(said).values["MODELS_DIR"] == "/h/models"


def test_a_home_in_the_name_of_a_folder_is_composes():
    code = "from bundle.paths import VALUES, folder; print(VALUES['MODELS_DIR'], folder('WHEELS_DIR', ''), VALUES['A'])"
    env = {"PYTHONPATH": f"{ROOT}/operations:{ROOT}/common", "PATH": "/usr/bin:/bin", "HOME": "/h"}
    env |= {"MODELS_DIR": "~/m", "WHEELS_DIR": "~/w", "A": "~/a"}
    done = subprocess.run(["python3", "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "/h/m /h/w ~/a\n", done.stderr


def test_a_script_says_a_malformed_line_once_and_ends(tmp_path: Path):
    """The script of a checkout whose .env is broken; the packages are those of the tree."""
    code = (
        "import pathlib, bundle.envfile as e; read = e.merged\n"
        f"e.merged = lambda path: read(pathlib.Path({str(tmp_path / '.env')!r}))\n"
        "import bundle.paths"
    )
    (tmp_path / ".env").write_text("A=1\nVLM_PORT 9000\n")
    env = {"PYTHONPATH": f"{ROOT}/operations:{ROOT}/common", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["python3", "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr == "error: .env, line 2: 'VLM_PORT 9000' is not KEY=VALUE\n"


def test_a_file_that_this_user_may_not_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / ".env").touch()
    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(UsageError, match=rf"this user may not read {tmp_path}/\.env; its owner and root \(sudo\) may"):
        envfile.merged(tmp_path / ".env")


def test_texts_by_chance_are_read_or_refused():
    found = [env_texts.ours(env_texts.some(seed)) for seed in range(500)]
    assert 50 < found.count(None) < 300
