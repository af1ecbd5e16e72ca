# SPDX-License-Identifier: Apache-2.0
"""Messages that name a setting say where it is set, in the words of whoever started the service."""

from __future__ import annotations

import pytest

from tests.support.kubernetes import one, rendered
from tests.support.paths import ROOT
from tool_errors import with_place

COMPOSE = {"SETTINGS_PLACE": ".env beside compose.yaml"}


@pytest.mark.parametrize(
    ("message", "env", "told"),
    [
        (
            "The request is larger than 1 MiB (PARSER_MAX_BODY_MIB).",
            COMPOSE,
            "The request is larger than 1 MiB (PARSER_MAX_BODY_MIB). PARSER_MAX_BODY_MIB is set in .env beside "
            "compose.yaml.",
        ),
        (
            "too slow (PARSER_LEAST_RATE, PARSER_STALL_TIMEOUT_S)",
            COMPOSE,
            "too slow (PARSER_LEAST_RATE, PARSER_STALL_TIMEOUT_S). PARSER_LEAST_RATE and PARSER_STALL_TIMEOUT_S are "
            "set in .env beside compose.yaml.",
        ),
        ("file: missing", COMPOSE, "file: missing"),
        ("VLM_PORT is 'x'; expected a port", {}, "VLM_PORT is 'x'; expected a port"),
    ],
)
def test_a_message_ends_with_the_place(message: str, env: dict[str, str], told: str):
    assert with_place(message, env) == told


@pytest.mark.parametrize(("deployment", "settings"), [("parser", "parser-settings"), ("vlm", "vlm-settings")])
def test_kubernetes_names_the_file_that_its_settings_come_from(deployment: str, settings: str):
    place = one(rendered("cpu"), "ConfigMap", settings)["data"]["SETTINGS_PLACE"]
    assert f"{deployment}.env" in place and (ROOT / "deploy/kubernetes/base" / f"{deployment}.env").is_file()
