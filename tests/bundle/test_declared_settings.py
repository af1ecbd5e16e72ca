# SPDX-License-Identifier: Apache-2.0
"""The table of settings, and what the programs do with a name that is not in it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import declared_settings
from bundle.preflight import settings as preflight
from bundle.preflight.machine import Machine
from bundle.settings import LocalSettings
from declared_settings.kinds import Choice, Number
from env_values import WrongValue
from tests.support.paths import ROOT
from tool_errors import UsageError
from vlm_server.settings import GRAPH_MODES

LINE = "PARSER_MAX_BODYMIB: unknown; did you mean PARSER_MAX_BODY_MIB?"


def test_every_name_that_the_code_reads_is_known():
    known = declared_settings.names() | declared_settings.BETWEEN_PROGRAMS
    prefixes = "|".join(declared_settings.PREFIXES)
    read = re.compile(rf'(?:env|environ|values|VALUES|merged|settings)(?:\.get\(|\[)"((?:{prefixes})[A-Z0-9_]+)"')
    folders = ("common", "model_code", "operations", "parser/docparser")
    found = {
        name for folder in folders for path in (ROOT / folder).rglob("*.py") for name in read.findall(path.read_text())
    }
    assert len(found) > 30 and found - known == set()


@pytest.mark.parametrize("setting", declared_settings.DECLARED.values(), ids=lambda setting: setting.name)
def test_a_default_is_a_value_of_its_kind(setting):
    declared_settings.check({setting.name: setting.default}, setting.name)
    declared_settings.check({}, setting.name)
    assert setting.meaning.endswith(".") and setting.meaning[0] == setting.meaning[0].upper()


@pytest.mark.parametrize(
    "setting",
    [one for one in declared_settings.DECLARED.values() if isinstance(one, (Number, Choice))],
    ids=lambda setting: setting.name,
)
def test_a_value_beyond_the_bounds_is_refused(setting):
    wrong = "other" if isinstance(setting, Choice) else f"{setting.most + 1}"
    with pytest.raises(WrongValue, match=setting.name):
        declared_settings.check({setting.name: wrong}, setting.name)


def test_the_launcher_knows_every_graph_mode_of_the_table():
    setting = declared_settings.DECLARED["VLM_GRAPH_MODE"]
    assert isinstance(setting, Choice) and tuple(GRAPH_MODES) == setting.values


def test_local_mode_does_not_start_with_an_unknown_name(tmp_path):
    (tmp_path / ".env").write_text("PARSER_MAX_BODYMIB=7\n")
    with pytest.raises(UsageError, match=re.escape(LINE)):
        LocalSettings.load({}, tmp_path / ".env")


def test_preflight_names_unknown_names_and_wrong_values():
    [good] = preflight.check_settings(Machine({"VLM_REPLICAS": "2", "PARSER_MAX_BODY_MIB": "7"}))
    assert good.level == "PASS"
    name, value = preflight.check_settings(Machine({"PARSER_MAX_BODYMIB": "7", "VLM_REPLICAS": "two"}))
    assert (name.level, name.found) == ("FAIL", LINE)
    assert (value.level, value.found, value.needed) == (
        *("FAIL", "VLM_REPLICAS is 'two'"),
        "a whole number from 1 to 64",
    )


@pytest.mark.parametrize("module", ["container.vlm", "container.parser"])
def test_a_container_with_an_unknown_name_ends_before_anything_starts(module: str):
    env = {"PYTHONPATH": f"{ROOT}/operations:{ROOT}/common", "PARSER_MAX_BODYMIB": "7"}
    done = subprocess.run([sys.executable, "-m", module], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr == f"error: {LINE}\n"
