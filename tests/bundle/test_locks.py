# SPDX-License-Identifier: Apache-2.0
"""The requirement locks: complete, hashed, for both platforms, and naming no registry."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

from bundle.environment import install_plan
from bundle.environments import ENVIRONMENTS
from bundle.locks import drop_universal_marker, split_entries

REQUIREMENTS = ROOT / "config/requirements"
LOCKS = sorted(REQUIREMENTS.glob("*.txt"))
LOCKS = [path for path in LOCKS if not path.name.endswith(".overrides.txt")]


def entries(path):
    """A lock's entries without comments."""
    lines = [line for line in path.read_text().splitlines(keepends=True) if not line.startswith("#")]
    return split_entries("".join(lines))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_entry_is_pinned_and_hashed(path):
    found = entries(path)
    assert found
    for entry in found:
        assert re.match(r"^[A-Za-z0-9._-]+==[^\s;\\]+", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    assert not re.search(r"https?://|--index|--find-links", path.read_text())


@pytest.mark.parametrize("path", sorted(REQUIREMENTS.glob("*.in")), ids=lambda path: path.name)
def test_what_a_human_asks_for_is_locked(path):
    lock = {}
    for name in (f"{path.stem}.txt", f"torch-{path.stem}.txt"):
        if (REQUIREMENTS / name).is_file():
            for entry in entries(REQUIREMENTS / name):
                package, _, version = entry.split()[0].partition("==")
                lock[normal(package)] = version
    for line in path.read_text().splitlines():
        wanted = re.match(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:==([^\s;]+))?", line)
        if wanted:
            assert normal(wanted[1]) in lock, line
            assert wanted[2] in (None, lock[normal(wanted[1])]), line


def test_cuda_libraries_and_triton_are_for_x86_only():
    for path in REQUIREMENTS.glob("torch-*.txt"):
        for entry in entries(path):
            if entry.startswith(("nvidia-", "triton")):
                assert "platform_machine == 'x86_64'" in entry.splitlines()[0], entry


def test_torch_has_a_file_of_its_own():
    for name in ("vlm", "reference"):
        assert not any(entry.startswith(("torch==", "nvidia-")) for entry in entries(REQUIREMENTS / f"{name}.txt"))
        assert any(entry.startswith("torch==") for entry in entries(REQUIREMENTS / f"torch-{name}.txt"))


def test_a_leaner_torch_index_replaces_the_plain_builds(monkeypatch):
    monkeypatch.setitem(__import__("bundle.paths").paths.VALUES, "TORCH_CPU_INDEX_URL", "file:///somewhere")
    locked, torch, *_ = install_plan(ENVIRONMENTS["vlm"])
    assert str(ENVIRONMENTS["vlm"].torch_lock) not in locked[1] and "--require-hashes" in locked[1]
    assert "file:///somewhere" in torch[1] and "torch==2.8.0+cpu" in torch[1]


def test_the_marker_that_says_nothing_is_dropped():
    pins = {"a==1": "x or y", "b==2": "x", "c==3": "x or y"}
    lock = "".join(f"{pin} ; {marker} \\\n    --hash=sha256:0\n" for pin, marker in pins.items())
    assert [entry.splitlines()[0] for entry in drop_universal_marker(split_entries(lock))] == [
        "a==1 \\", "b==2 ; x \\", "c==3 \\"]
