# SPDX-License-Identifier: Apache-2.0
"""A lock can be installed on both platforms, as far as the index has wheels. Needs the index.

That all locks can is long: each new lock is selected on both when it is made.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from bundle.environments.environment import split_entries
from bundle.environments.locks import PLATFORMS, SOURCE, Source, select_wheels
from bundle.wheels import read_pins
from tests.support.paths import ROOT
from tool_errors import EnvironmentSetupError

REQUIREMENTS = ROOT / "config/requirements"
GROUPS = Source(SOURCE.read_text())
# vLLM's source distributions are built in the image.
NAMES = [name for name in GROUPS.names if not GROUPS.settings(name).get("no-deps")]
# What the images of the stacks are made from; the other locks are selected on demand.
IMAGES = ("bootstrap", "supervisor", "parser", "vlm", "vlm-0.23", "vlm-ascend", "vlm-ascend-0.23")


def selected(lock: Path, platform: str) -> int:
    try:
        return select_wheels(lock, platform)
    except EnvironmentSetupError as error:
        if "error sending request" in str(error) or "no-index" in str(error).lower():
            pytest.skip(f"the package index does not answer: {error}")
        raise


@pytest.mark.long
@pytest.mark.parametrize("name", IMAGES if os.environ.get("WHEEL_SELECTION") != "all" else NAMES)
def test_a_lock_has_a_wheel_for_every_entry_on_aarch64(name: str):
    lock = REQUIREMENTS / f"{name}.txt"
    # A package may have two versions, for early and late Python 3.11; one of them is selected.
    assert selected(lock, PLATFORMS[1]) == len(
        {pin.requirement.partition("==")[0] for pin in read_pins([lock], "aarch64")}
    )


def test_an_entry_without_a_wheel_for_the_platform_is_found(tmp_path: Path):
    """Intel's OpenMP has wheels for x86-64 alone; its marker, which keeps it out elsewhere, is taken away."""
    entries = split_entries((REQUIREMENTS / "vlm-0.23.txt").read_text())
    [entry] = [entry for entry in entries if entry.startswith("intel-openmp==")]
    lock = tmp_path / "lock.txt"
    lock.write_text(re.sub(r" ; [^\\\n]+", " ", entry))
    assert selected(lock, PLATFORMS[0]) == 1
    with pytest.raises(EnvironmentSetupError, match="cannot be installed on aarch64-manylinux_2_34"):
        selected(lock, PLATFORMS[1])
