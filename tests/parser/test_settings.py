# SPDX-License-Identifier: Apache-2.0
"""The groups of settings become one class."""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest
from pydantic_settings import BaseSettings

from docparser.layout.served import CONNECT_TIMEOUT_S
from docparser.parsing.scheduler import CANCEL_GRACE_S
from docparser.settings import Settings
from served_weights.settings import WeightSettings
from tool_errors import SETTINGS_PLACE


def test_no_group_hides_what_another_checks():
    """A validator replaces one of the same name in another group, without a word."""
    groups = [group for group in Settings.__mro__ if issubclass(group, BaseSettings)]
    checks = {name for group in groups for name in group.__pydantic_decorators__.field_validators}
    defined = Counter(name for group in groups for name in vars(group) if name in checks)
    assert len(groups) > 5 and checks and [name for name, count in defined.items() if count > 1] == []


@pytest.mark.parametrize("said", ["/models/own.yaml", "config/models.yaml", "", None])
def test_the_parser_reads_the_models_yaml_of_the_launcher(monkeypatch: pytest.MonkeyPatch, tmp_path, said: str | None):
    monkeypatch.delenv("MODELS_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    if said is not None:
        monkeypatch.setenv("MODELS_CONFIG", said)
    assert Settings().models_config == WeightSettings.from_environment(os.environ).models_config


def test_a_page_that_waits_for_the_layout_server_is_not_taken_for_stuck():
    """A worker with a cancelled page that does not end is killed, and pages of others with it."""
    with pytest.raises(ValueError, match="layout_timeout_s"):
        Settings(layout_timeout_s=CANCEL_GRACE_S - CONNECT_TIMEOUT_S)


def test_the_service_does_not_start_with_an_unknown_name(refused_start):
    line = "docparser: PARSER_MAX_BODYMIB: unknown; did you mean PARSER_MAX_BODY_MIB?\n"
    assert refused_start(PARSER_MAX_BODYMIB="7") == line


@pytest.mark.parametrize(("name", "value"), [("PARSER_MAX_BODYMIB", "7"), ("PARSER_WORKERS", "four")])
def test_what_ends_the_start_says_where_it_is_set(refused_start, name: str, value: str):
    words = refused_start(**{SETTINGS_PLACE: ".env beside compose.yaml", name: value})
    assert re.search(rf"\b{name}( and \w+)? (is|are) set in \.env beside compose\.yaml\.$", words)
