# SPDX-License-Identifier: Apache-2.0
"""Each script of the offline archive finds in the archive what it needs, without a network: modules, locks, packages,
files, manifests; and one environment is really made of a folder of wheels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle import origin
from bundle.environments.setup import ENVIRONMENTS
from bundle.local_mode.settings import LocalSettings
from bundle.offline import contents
from tests.support.docs import blocks
from tests.support.kubernetes import build
from tests.support.namespaces import ISOLATED, works
from tests.support.paths import ROOT
from tests.support.tree import imported_modules, modules

CARRIED = {path.relative_to(ROOT) for path in contents.tree_files()}
SCRIPTS = sorted(path for path in CARRIED if path.parent == Path("scripts") and path.suffix in (".sh", ".py"))
# What a shell has that knows nothing of this checkout.
BARE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "PYTHON": sys.executable}


isolated = pytest.mark.skipif(
    not works(*ISOLATED, "true"), reason="network namespaces need unshare(1) and the right to use it"
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive's tree, as `load` leaves it."""
    folder = tmp_path_factory.mktemp("node") / origin.NAME
    for path in CARRIED:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    return folder


def started(script: Path) -> tuple[str, str]:
    """(environment or nothing, dotted module) that a script starts."""
    text = (ROOT / script).read_text()
    if script.suffix == ".sh":
        found = re.search(r'^run_(?:module|on_node) (\S+) "\$@"', text, re.MULTILINE)
        assert found, f"{script} starts no module"
        return "", f"bundle.{found[1]}"
    environment, module = re.findall(r'launch\.tool\("([\w.-]+)", "([\w.]+)"\)', text)[0]
    return environment, module


def needed(module: str) -> Iterator[str]:
    """The module, its package's start, and all modules of ours that they import, also inside functions."""
    waiting = [name for name in (module, f"{module}.__main__") if name in modules()]
    assert waiting, f"{module} is not there"
    seen = set(waiting)
    while waiting:
        yield (name := waiting.pop())
        waiting += (new := imported_modules(name) - seen)
        seen |= new


def test_the_scripts_that_stay_behind_are_there():
    assert all((ROOT / name).is_file() for name in contents.NOT_CARRIED) and len(SCRIPTS) >= 15


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_modules_of_a_script_are_carried(script: Path):
    environment, module = started(script)
    assert {str(modules()[name]) for name in needed(module)} - set(map(str, CARRIED)) == set()
    if environment:
        made = ENVIRONMENTS[environment]
        assert made.inputs and {path.relative_to(ROOT) for path in made.inputs} <= CARRIED


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_what_an_environment_installs_is_carried(name: str):
    """Also where an environment is only started by another: run_demo.sh makes `vlm` and `parser`."""
    made = ENVIRONMENTS[name]
    assert made.lock.relative_to(ROOT) in CARRIED
    for package in made.packages:
        assert Path(package, "pyproject.toml") in CARRIED
    own = {path for path in modules().values() if any(path.is_relative_to(package) for package in made.packages)}
    assert own <= CARRIED


def test_files_that_carried_code_names_are_carried():
    """`ROOT / "a" / "b"` and `ROOT / "a/b"`, where the tree has such a file."""
    named = {
        (path, "/".join(re.findall(r'"([^"]+)"', match[1])))
        for path in CARRIED
        if path.suffix == ".py"
        for match in re.finditer(r'\bROOT((?: / "[^"]+")+)', (ROOT / path).read_text())
    }
    # What git has: a folder of wheels, say, is there where somebody fetched some.
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = [Path(name) for name in listed.splitlines()]
    there = {(path, name) for path, name in named if any(one.is_relative_to(name) for one in tracked)}
    there = {(path, name) for path, name in there if name not in contents.NOT_CARRIED}
    missing = {(str(path), name) for path, name in there if not any(one.is_relative_to(name) for one in CARRIED)}
    assert len(there) >= 5 and missing == set()


@isolated
def test_every_script_starts_without_a_network(unpacked: Path):
    """All at once: each only says its usage."""
    running = {
        script: subprocess.Popen(
            [*ISOLATED, *([] if script.suffix == ".sh" else [sys.executable]), unpacked / script, "--help"],
            cwd=unpacked.parent,
            env=BARE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for script in SCRIPTS
    }
    for script, process in running.items():
        said, errors = process.communicate(timeout=120)
        assert "usage: " in said + errors and "Traceback" not in errors, f"{script}: {errors}"


def test_the_manifests_for_a_cluster_are_whole(unpacked: Path):
    """The overlay for CPUs, and in a site's file that for three parsers on Ascend with components."""
    kubernetes = unpacked / "deploy/kubernetes"
    site = kubernetes / "site/kustomization.yaml"
    site.parent.mkdir()
    kind = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: paddleocr-vl\n"
    components = "[../components/monitoring, ../components/keda, ../components/driver-mounts]"
    site.write_text(f"{kind}resources: [../overlays/ha]\ncomponents: {components}\n")
    for folder in (kubernetes / "overlays/cpu", site.parent):
        assert build(folder)


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("docs/install.md", r"`corpus`; (.*) for `run_demo\.sh` without\s+containers"),
        ("docs/zh-CN/install.md", r"不用容器的 `run_demo\.sh` 用 (.*?)）由 wheel"),
    ],
)
def test_the_guide_names_all_environments_of_local_mode(page: str, sentence: str):
    found = re.search(sentence, (ROOT / page).read_text())
    assert found and tuple(re.findall(r"`([\w-]+)`", found[1])) == LocalSettings.of({}).environments


@isolated
@pytest.mark.long
def test_a_tools_environment_is_made_without_a_network(unpacked: Path, tmp_path: Path):
    """The guide's way: wheels are collected where there is a network, and install what the archive carries."""
    wheels = tmp_path / "wheels"
    fetch = [str(ROOT / "scripts/fetch_wheels.sh"), "--dir", str(wheels), "client"]
    subprocess.run(fetch, check=True, capture_output=True, text=True)
    *_, command = blocks(ROOT / "docs/install.md", "Without network")
    assert "/path/of/the/folder" in command
    node = BARE | {"PIP_CONFIG_FILE": os.devnull, "HOME": str(tmp_path)}
    made = subprocess.run(
        [*ISOLATED, "bash", "-euc", command.replace("/path/of/the/folder", str(wheels))],
        cwd=unpacked,
        env=node,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    asked = subprocess.run(
        [*ISOLATED, sys.executable, unpacked / "scripts/parse_folder.py", tmp_path / "absent", "--out", tmp_path],
        env=node,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "absent" in asked.stderr and "Traceback" not in asked.stderr and asked.returncode == 2, asked.stderr
