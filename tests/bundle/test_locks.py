# SPDX-License-Identifier: Apache-2.0
"""The requirement locks: complete, hashed, for both platforms, and naming no registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from bundle import paths
from bundle.environments.environment import Environment, install_plan, locked, split_entries
from bundle.environments.locks import SOURCE, Source, drop_universal_marker
from bundle.environments.setup import ENVIRONMENTS
from tests.support.paths import ROOT
from tool_errors import UsageError

REQUIREMENTS = ROOT / "config/requirements"
LOCKS = sorted(REQUIREMENTS.glob("*.txt"))
GROUPS = Source(SOURCE.read_text())


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_group_has_a_lock_and_every_lock_a_group():
    assert {path.stem for path in LOCKS} == set(GROUPS.names)
    assert ENVIRONMENTS.keys() < set(GROUPS.names)


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_entry_is_pinned_and_hashed(path: Path):
    found = split_entries(path.read_text())
    assert found
    for entry in found:
        assert re.match(r"^[A-Za-z0-9._-]+==[^\s;\\]+", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    assert not re.search(r"https?://|--index|--find-links", path.read_text())


@pytest.mark.parametrize("name", GROUPS.names)
def test_what_a_group_asks_for_is_locked(name: str):
    versions: dict[str, set[str]] = {}
    for entry in split_entries((REQUIREMENTS / f"{name}.txt").read_text()):
        package, _, version = entry.split()[0].partition("==")
        versions.setdefault(normal(package), set()).add(version)
    for requirement in GROUPS.group(name):
        wanted = re.match(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:==([^\s;]+))?", requirement)
        assert wanted and normal(wanted[1]) in versions, requirement
        assert wanted[2] is None or versions[normal(wanted[1])] == {wanted[2]}, requirement


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_cuda_libraries_and_triton_are_for_x86_only(path: Path):
    """From 2.11 on, the wheel of torch for aarch64 is built with CUDA too."""
    for entry in split_entries(text := path.read_text()):
        if entry.startswith(("nvidia-", "triton")) and "\ntorch==2.11." not in text:
            assert "platform_machine == 'x86_64'" in entry.splitlines()[0], entry


def test_what_a_group_never_installs_is_in_no_lock():
    excluded = {name: GROUPS.settings(name).get("excludes", []) for name in GROUPS.names}
    assert "triton" in excluded["vlm"] and "triton" in excluded["npu"]
    for name, packages in excluded.items():
        pinned = {entry.partition("==")[0] for entry in split_entries((REQUIREMENTS / f"{name}.txt").read_text())}
        assert not pinned & set(packages), name


def test_the_lock_of_a_corpus_contains_the_parsers():
    """The image of a corpus stands on the parser's dependencies (Dockerfile.cpu): a package of another version would be
    in it twice."""

    def pins(name: str) -> set[tuple[str, frozenset[str]]]:
        entries = split_entries((REQUIREMENTS / f"{name}.txt").read_text())
        return {(entry.splitlines()[0], frozenset(re.findall(r"--hash=\S+", entry))) for entry in entries}

    assert pins("parser") < pins("corpus")


def test_a_setting_without_a_group_is_refused():
    table = SOURCE.read_text() + "\n[tool.locks.vlmm]\nno-deps = true\n"
    assert tomllib.loads(table)["tool"]["locks"]["vlmm"]
    with pytest.raises(UsageError, match=r"tool\.locks\.vlmm names no group; expected one of .*'vlm'"):
        Source(table)


def test_a_group_includes_others_in_place():
    source = Source("""
        [dependency-groups]
        a = ["x", { include-group = "shared-b" }, "z"]
        shared-b = [{ include-group = "shared-c" }]
        shared-c = ["y==1"]
        [tool.uv]
        """)
    assert source.names == ["a"] and source.group("a") == ["x", "y==1", "z"] and source.settings("a") == {}


def test_an_index_of_cpu_builds_replaces_torch_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = locked(ENVIRONMENTS["vlm"])
    assert "\ntorch==2.8.0" in whole and "\nnvidia-" in whole
    assert len(install_plan(Environment("vlm"), tmp_path / "requirements.txt")) == 1
    monkeypatch.setitem(paths.VALUES, "TORCH_CPU_INDEX_URL", "file:///somewhere")
    lean = locked(ENVIRONMENTS["vlm"])
    left_out = {entry.split()[0] for entry in split_entries(whole)} - {
        entry.split()[0] for entry in split_entries(lean)
    }
    assert {"torch==2.8.0", "torchvision==0.23.0", "torchaudio==2.8.0"} <= left_out and "torch" not in lean.split("==")
    assert all(pin.startswith(("torch", "nvidia-")) for pin in left_out)
    sync, torch = install_plan(Environment("vlm"), tmp_path / "requirements.txt")
    assert "--require-hashes" in sync[1] and str(tmp_path / "requirements.txt") in sync[1]
    assert "file:///somewhere" in torch[1] and "torch==2.8.0+cpu" in torch[1]
    assert locked(ENVIRONMENTS["parser"]) == ENVIRONMENTS["parser"].lock.read_text()
    assert len(install_plan(Environment("parser"), tmp_path / "requirements.txt")) == 1


def test_the_marker_that_says_nothing_is_dropped():
    both, one = "machine == 'x86_64' or machine == 'aarch64'", "machine == 'x86_64'"
    pins = {"a==1": both, "b==2": one, "c==3": both}
    lock = "# a comment\n" + "".join(f"{pin} ; {marker} \\\n    --hash=sha256:0\n" for pin, marker in pins.items())
    assert [entry.splitlines()[0] for entry in drop_universal_marker(split_entries(lock))] == [
        "a==1 \\",
        f"b==2 ; {one} \\",
        "c==3 \\",
    ]


def test_a_marker_that_all_entries_have_stays_where_it_names_a_processor():
    entries = ["a==1 ; machine == 'x86_64' \\\n    --hash=sha256:0\n"]
    assert drop_universal_marker(entries) == entries
