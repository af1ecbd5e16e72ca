# SPDX-License-Identifier: Apache-2.0
"""Messages that name a setting say where it is set, in the words of whoever started the service."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.kubernetes import one, rendered
from tests.support.paths import ROOT
from tool_errors import DeviceError, EnvironmentSetupError, ServiceError, ToolError, UsageError, run, with_place

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


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        (None, 0),
        (7, 7),
        (ToolError("why"), 1),
        (UsageError("why"), 2),
        (EnvironmentSetupError("why"), 3),
        (ServiceError("why"), 4),
        (DeviceError("why"), 4),
        (KeyboardInterrupt(), 130),
    ],
    ids=repr,
)
def test_how_a_command_ends_is_its_status(capsys: pytest.CaptureFixture[str], ends: object, status: int):
    def command() -> int | None:
        if isinstance(ends, BaseException):
            raise ends
        assert ends is None or isinstance(ends, int)
        return ends

    assert run(command, "interrupted; run it again") == status
    said = {130: "interrupted; run it again\n"}.get(status, "error: why\n" if isinstance(ends, ToolError) else "")
    assert capsys.readouterr() == ("", said)


def test_whoever_reads_the_output_may_go_away():
    """The interpreter, which flushes stdout at its end, says nothing of it either."""
    theirs, ours = os.pipe()
    os.close(theirs)
    words = "import tool_errors; raise SystemExit(tool_errors.run(lambda: print('x', flush=True)))"
    env = {"PYTHONPATH": str(ROOT / "common")}
    with os.fdopen(ours, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-c", words], stdout=closed, stderr=subprocess.PIPE, env=env, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "error: the reader of the output went away before everything was written\n"
