# SPDX-License-Identifier: Apache-2.0
"""The groups of settings become one class."""

from __future__ import annotations

from collections import Counter

from pydantic_settings import BaseSettings

from docparser.server import main
from docparser.settings import Settings


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
