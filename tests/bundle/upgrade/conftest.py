# SPDX-License-Identifier: Apache-2.0
"""An A3 node whose dies belong to one container each. The engine and the driver are simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundle.compose import dies, upgrade
from tests.support.recorded_npu_smi import SAMPLES
from tests.support.simulated_dies import IMAGE, SimulatedDies, table


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedDies:
    found = SimulatedDies(tmp_path, monkeypatch, IMAGE)
    (tmp_path / "share").write_text((SAMPLES / "share-off.txt").read_text())
    for name in ("NPU_IDS", "VLM_IMAGE", "ATLAS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(upgrade, "VALUES", {})
    monkeypatch.setattr(upgrade, "PAUSE_SECONDS", 0.01)
    # A node with all device files; npu-smi lists each of the 16 dies in lines like the recorded ones.
    (tmp_path / "dev").mkdir()
    for number in range(16):
        (tmp_path / f"dev/davinci{number}").touch()
    unusable = dies.unusable
    monkeypatch.setattr(dies, "unusable", lambda wanted, _=None: unusable(wanted, tmp_path))
    monkeypatch.setattr(upgrade.project, "boot_folder", lambda _: None)
    (tmp_path / "info").write_text(table(range(16)))
    found.build("sha256:new")
    return found
