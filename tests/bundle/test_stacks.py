# SPDX-License-Identifier: Apache-2.0
"""common/stacks.py is the one table of stacks: what repeats a part of it agrees with it."""

from __future__ import annotations

import re

import pytest
import yaml

import stacks
from bundle.compose import dies
from tests.support.paths import ROOT


@pytest.mark.parametrize("stack", stacks.STACKS.values(), ids=stacks.STACKS)
def test_a_row_is_what_compose_builds(stack: stacks.Stack):
    """Docker compose cannot ask the table."""
    services = yaml.safe_load((ROOT / f"config/stacks/{stack.key}.yaml").read_text())["services"]
    for name, service in services.items():
        args = service["build"]["args"]
        assert args["STACK"] == stack.key
        assert args["VLM_ENVIRONMENT"] == stack.environment("cpu" if name == "vlm-cpu" else "ascend")
        assert name == "vlm-cpu" or args["CANN_VERSION"].startswith(f"{stack.cann}.")
        assert stacks.of(args["VLLM_VERSION"]) is stack


def test_the_default_is_that_of_compose_and_of_the_dockerfiles():
    files = [ROOT / "config/compose/cpu.yaml", ROOT / "config/compose/ascend.yaml", *dies.FOLDER.glob("*.yaml")]
    for file in files:
        assert set(re.findall(r"\$\{STACK:-([^}]*)\}", file.read_text())) == {stacks.DEFAULT.key}, file
    for file in (ROOT / "Dockerfile.cpu", ROOT / "Dockerfile.ascend"):
        assert set(re.findall(r"^ARG STACK=(\S+)", file.read_text(), re.MULTILINE)) == {stacks.DEFAULT.key}, file


def test_which_row_holds():
    assert stacks.of("0.11.1") is stacks.DEFAULT and stacks.of("0.23.0") is stacks.NEWEST
    assert stacks.of("99.0.0") is stacks.of(None) is stacks.NEWEST
