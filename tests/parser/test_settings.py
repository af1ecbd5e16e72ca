# SPDX-License-Identifier: Apache-2.0
"""The groups of settings become one class."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from pydantic_settings import BaseSettings

from docparser.server import main
from docparser.settings import Settings
from tool_errors import SETTINGS_PLACE


def test_no_group_hides_what_another_checks():
    """A validator replaces one of the same name in another group, without a word."""
    groups = [group for group in Settings.__mro__ if issubclass(group, BaseSettings)]
    checks = {name for group in groups for name in group.__pydantic_decorators__.field_validators}
    defined = Counter(name for group in groups for name in vars(group) if name in checks)
    assert len(groups) > 5 and checks and [name for name, count in defined.items() if count > 1] == []


def test_the_service_does_not_start_with_an_unknown_name(monkeypatch, capsys):
    monkeypatch.setattr("os.umask", lambda mask: mask)
    monkeypatch.setenv("PARSER_MAX_BODYMIB", "7")
    assert main() == 2
    line = "docparser: PARSER_MAX_BODYMIB: unknown; did you mean PARSER_MAX_BODY_MIB?\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(("name", "value"), [("PARSER_MAX_BODYMIB", "7"), ("PARSER_WORKERS", "four")])
def test_what_ends_the_start_says_where_it_is_set(monkeypatch, capsys, name: str, value: str):
    monkeypatch.setattr("os.umask", lambda mask: mask)
    monkeypatch.setenv(SETTINGS_PLACE, ".env beside compose.yaml")
    monkeypatch.setenv(name, value)
    assert main() == 2
    assert re.search(rf"\b{name}( and \w+)? (is|are) set in \.env beside compose\.yaml\.$", capsys.readouterr().err)


def test_an_answer_that_names_a_setting_says_where_it_is_set(start_service, vlm):
    service = start_service(VLM_URL=vlm.url, PARSER_MAX_BODY_MIB="1", SETTINGS_PLACE=".env beside compose.yaml").wait()
    for path, field in (("/layout-parsing", "errorMsg"), ("/api/v2/ocr/jobs", "msg")):
        refused = service.client.post(path, content=b" " * (3 << 19), headers={"Content-Type": "application/json"})
        assert refused.status_code == 413
        assert refused.json()[field].endswith("PARSER_MAX_BODY_MIB is set in .env beside compose.yaml.")
