# SPDX-License-Identifier: Apache-2.0
"""The table of settings, and what the programs do with a name that is not in it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

import declared_settings
from bundle.local_mode.settings import LocalSettings
from bundle.preflight import host
from bundle.preflight.machine import Machine
from container import cores as container_cores
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


def test_compose_gives_the_vlm_no_default_of_a_setting():
    """An image of the release before, which scripts/upgrade.sh starts by this file, takes unknown names only empty."""
    vlm = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["vlm"]["environment"]
    ascend = yaml.safe_load((ROOT / "config/compose/ascend.yaml").read_text())["services"]["vlm"]["environment"]
    given = {name: text for name, text in {**vlm, **ascend}.items() if name.startswith(declared_settings.PREFIXES)}
    assert len(given) > 20 and given == {name: f"${{{name}:-}}" for name in given}


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


@pytest.mark.parametrize(
    ("hosts", "fit"),
    [("A.example 10.0.0.7:8080", True), (" a ", True)]
    + [(wrong, False) for wrong in ("a:123456", "http://a", "a,b", "a b:")],
)
def test_hosts_of_media_are_names_with_blanks_between_them(hosts: str, fit: bool):
    assert (declared_settings.wrong({"VLM_MEDIA_HOSTS": hosts}) == []) is fit


def test_local_mode_does_not_start_with_an_unknown_name():
    with pytest.raises(UsageError, match=re.escape(LINE)):
        LocalSettings.of({"PARSER_MAX_BODYMIB": "7"})


def test_preflight_names_unknown_names_and_wrong_values():
    [good] = host.check_settings(Machine({"VLM_REPLICAS": "2", "PARSER_MAX_BODY_MIB": "7"}))
    assert good.level == "PASS"
    name, value = host.check_settings(Machine({"PARSER_MAX_BODYMIB": "7", "VLM_REPLICAS": "two"}))
    assert (name.level, name.found) == ("FAIL", LINE)
    assert (value.level, value.found, value.needed) == (
        *("FAIL", "VLM_REPLICAS is 'two'"),
        "a whole number from 1 to 64",
    )


WRONG = {
    "PARSER_WORKERS": ("four", "a whole number from 1 to 64"),
    "PARSER_PDF_SCALE": ("nan", "a number above 0 to 10"),
    "PARSER_CONFIDENCE": ("maybe", "1 or 0"),
    "PARSER_AUTH": ("no", "one of keys, off"),
    "PARSER_BIND": ("localhost", "an IP address like 127.0.0.1, 0.0.0.0 or [::]"),
    "PARSER_PORT": ("http", "a port number from 1 to 65535"),
    "PARSER_TRUSTED_PROXIES": ("127.0.0.1,proxy", "addresses and networks like 127.0.0.1,10.2.0.0/16"),
    "PUBLIC_URL": ("ocr.example.org", "an address like https://ocr.example.org"),
    "LAYOUT_ENGINE": ("onnx", "one of auto, openvino, paddle"),
    "LAYOUT_DEVICE": ("gpu", "cpu, npu, or one like npu:1"),
    "LAYOUT_BATCH": ("33", "a whole number from 1 to 32"),
    "VLM_REPLICAS": ("two", "a whole number from 1 to 64"),
    "VLM_THREADS": ("many", "a whole number from 1 to 1024"),
    "VLM_MEMORY_UTILIZATION": ("1", "a share above 0 and below 1, like 0.8"),
    "VLM_MEDIA_HOSTS": (
        "images.example.org https://images.example.org",
        "names or addresses with blanks between them, like images.example.org 10.0.0.7:8080",
    ),
    "WATCHDOG_INTERVAL_S": ("soon", "a number from 0.01 to 3600"),
    "STACK": ("9.9", "one of 0.11.1, 0.23.0"),
}


def test_preflight_finds_every_wrong_value_at_once():
    found = list(host.check_settings(Machine({name: value for name, (value, _) in WRONG.items()})))
    assert {finding.level for finding in found} == {"FAIL"}
    said = {finding.found: finding.needed for finding in found}
    assert said == {f"{name} is {value!r}": expected for name, (value, expected) in WRONG.items()}


@pytest.mark.parametrize("module", ["container.vlm", "container.parser"])
def test_a_container_with_a_mistake_ends_before_anything_starts(module: str):
    values = {"PARSER_MAX_BODYMIB": "7", **{name: value for name, (value, _) in WRONG.items()}}
    env = {"PYTHONPATH": f"{ROOT}/operations:{ROOT}/common", **values}
    done = subprocess.run([sys.executable, "-m", module], env=env, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert (done.returncode, lines[0], len(lines)) == (2, f"error: {LINE}", 1 + len(WRONG))
    assert "PARSER_WORKERS is 'four'; expected a whole number from 1 to 64" in lines


@pytest.mark.parametrize(
    ("cores", "message"),
    [
        ("auto", None),
        ("none", None),
        ("0;1", None),
        ("0", "list 2 is wrong"),
        ("0;99", "list 2 is wrong"),
    ],
)
def test_lists_of_cores_are_checked_before_a_replica_starts(cores: str, message: str | None):
    env = {"VLM_CORES": cores, "VLM_REPLICAS": "2"}
    if message is None:
        container_cores.check(env, [0, 1])
        return
    with pytest.raises(UsageError, match=message):
        container_cores.check(env, [0, 1])


def test_the_stacks_of_the_table_are_those_that_there_are():
    setting = declared_settings.DECLARED["STACK"]
    assert isinstance(setting, Choice)
    assert sorted(setting.values) == sorted(path.stem for path in (ROOT / "config/stacks").glob("*.yaml"))


def test_a_secret_in_a_wrong_value_is_not_shown():
    [error] = declared_settings.wrong({"PARSER_DATABASE_URL": "mysql://me:planted@host"})
    assert "planted" not in str(error) and "postgresql://" in error.expected
    assert declared_settings.wrong({"VLM_PORT": "tcp://10.0.0.7:8000", "PARSER_WORKERS": ""}) == []
