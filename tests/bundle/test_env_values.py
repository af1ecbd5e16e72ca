# SPDX-License-Identifier: Apache-2.0
"""Values of environment variables: each kind names the variable, the value and what was expected."""

from __future__ import annotations

import pytest

import env_values
from declared_settings.kinds import Choice, Flag, Number, Port, Whole
from env_values import WrongValue

KINDS = {
    "flag": Flag("X", "", ""),
    "choice": Choice("X", "cpu", "", values=("cpu", "npu")),
    "whole": Whole("X", "4", "", least=1, most=32),
    "number": Number("X", "0.5", "", least=0.01, most=1),
    "port": Port("X", "8080", ""),
}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *(("flag", "", False), ("flag", "0", False), ("flag", "1", True)),
        *(("choice", "", "cpu"), ("choice", "npu", "npu")),
        *(("whole", "", 4), ("whole", "32", 32), ("whole", "007", 7)),
        *(("number", "", 0.5), ("number", ".25", 0.25), ("number", "1", 1.0)),
        *(("port", "", 8080), ("port", "65535", 65535)),
    ],
)
def test_a_value_is_read_and_empty_is_unset(kind: str, text: str, value: object):
    assert KINDS[kind].read({"X": text}) == value
    if not text:
        assert KINDS[kind].read({}) == value


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        *(("flag", word, "1 or 0") for word in ("yes", "2", " 1")),
        ("choice", "gpu", "one of cpu, npu"),
        *(("whole", word, "a whole number from 1 to 32") for word in ("0", "33", "-1", "1.5", "٣", "1" * 5000)),
        *(("number", word, "a number from 0.01 to 1") for word in ("0", "2", "nan", "1e-1", ".", "-1")),
        *(("port", word, "a port number from 1 to 65535") for word in ("0", "65536", "http", "80 ")),
    ],
)
def test_another_value_is_refused(kind: str, text: str, expected: str):
    with pytest.raises(WrongValue) as caught:
        KINDS[kind].read({"X": text})
    assert str(caught.value) == f"X is {text!r}; expected {expected}"
    assert (caught.value.name, caught.value.value, caught.value.expected) == ("X", text, expected)


def test_a_flag_says_what_it_does():
    with pytest.raises(WrongValue, match=r"^X is 'on'; expected 1 \(no graph mode\) or 0$"):
        Flag("X", "", "", does="no graph mode").read({"X": "on"})


NAMES = ("PARSER_MAX_BODY_MIB", "PARSER_PORT", "VLM_MODEL", "VLM_PORT", "LAYOUT_BATCH")
PREFIXES = ("PARSER_", "VLM_", "LAYOUT_")


def test_an_unknown_name_is_told_with_the_nearest_one():
    env = {"PARSER_MAX_BODYMIB": "7", "VLM_MODELL": "x", "LAYOUT_ZZZ": "1", "VLM_MODEL": "x", "PATH": "/bin"}
    assert env_values.unknown(env, PREFIXES, NAMES) == [
        "LAYOUT_ZZZ: unknown; docs/settings.md has all settings",
        "PARSER_MAX_BODYMIB: unknown; did you mean PARSER_MAX_BODY_MIB?",
        "VLM_MODELL: unknown; did you mean VLM_MODEL?",
    ]


def test_names_of_other_programs_and_of_a_clusters_services_are_nobodys_mistake():
    address = "tcp://10.96.0.7:8080"
    links = {
        **{"PARSER_SERVICE_HOST": "10.96.0.7", "PARSER_SERVICE_PORT": "8080", "PARSER_SERVICE_PORT_HTTP": "8080"},
        **{"VLM_PORT": address, "VLM_UI_PORT": address, "VLM_PORT_8000_TCP": address},
        **{"VLM_PORT_8000_TCP_PROTO": "tcp", "VLM_PORT_8000_TCP_PORT": "8000", "VLM_PODS_PORT_8000_TCP_ADDR": "::1"},
    }
    assert env_values.unknown(links | {"VLLM_USE_V1": "1", "VLM_HANDED": "x"}, PREFIXES, NAMES, {"VLM_HANDED"}) == []
    assert env_values.unknown({"VLM_UI_PORT": "80"}, PREFIXES, NAMES) != []


def test_what_a_newer_compose_file_passes_as_empty_is_unset():
    """An image of the release before meets it, as scripts/upgrade.sh makes vlm anew or goes back."""
    assert env_values.unknown({"VLM_OF_NEXT_YEAR": ""}, PREFIXES, NAMES) == []
