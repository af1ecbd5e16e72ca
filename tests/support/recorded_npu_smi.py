# SPDX-License-Identifier: Apache-2.0
"""What npu-smi printed, as tests/data/npu-smi keeps it, and the device files that stand beside it."""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import ROOT

SAMPLES = ROOT / "tests/data/npu-smi"
# Recorded and written failures -> what is said of them.
FAILURES = {
    "fails-8020": "another container holds the dies (-8020)",
    "fails-8005": "the driver does not let this process in (-8005)",
    "fails-8005-user": "the driver does not let this process in (-8005)",
    "fails-9005": "the driver's files here are not the node's (-9005)",
    "fails-library": "npu-smi lacks the driver's libraries",
    "fails-empty": "npu-smi info ended with status 1: | Chip  Phy-ID",
}


def devices(folder: Path, *numbers: int) -> Path:
    """A simulated /dev with the files of these dies."""
    for name in ("davinci_manager", *(f"davinci{number}" for number in numbers)):
        (folder / name).touch()
    return folder
