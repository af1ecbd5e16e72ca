# SPDX-License-Identifier: Apache-2.0
"""The walls of the tree: which package imports which, what needs the standard library only, no patched sys.path."""

from __future__ import annotations

import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.imports import defined, module_name, module_of
from tests.support.imports import imports as read_imports
from tests.support.paths import ROOT
from tests.support.tree import imported_modules, imports, modules, tracked

# Package -> the packages of this tree that it may import. `common` and `workshop` are everything in those folders.
# `docparser` has a test of its own for the walls inside it.
PACKAGES = {
    "common": set(),
    "bundle": {"common"},
    "container": {"common"},
    # Of the parser only what opens documents and what writes results, see FROM_PARSER.
    "batch": {"bundle", "common", "docparser"},
    # Outputs are written by the batch tool's code, pages are read by the parser's.
    "corpus": {"batch", "bundle", "common", "docparser"},
    "vlm_models": {"common"},
    "layout_server": {"common"},
    "vlm_server": {"common", "vlm_models"},
    "reference": {"common"},
    "plugin_logits": {"common", "reference", "vlm_server"},
    "docparser": {"common"},
    # Made, measures or judged something: nobody imports it, see SHIPPED.
    "workshop": {"bundle", "common", "docparser", "reference", "vlm_models", "vlm_server"},
}
FROM_PARSER = ("docparser.convert.", "docparser.opening")
# Room of operations/bundle -> the rooms that it may import. Every room may import the modules at the top of the package
# that are no commands; no room imports a command.
ROOMS = {
    "environments": set(),
    "image_build": {"environments"},
    # Of compose where the host has what settings name by its place in the containers.
    "weights": {"compose", "environments"},
    "compose": set(),
    "local_mode": {"environments"},
    # Of the archive only the name of its manifest: whether this folder builds.
    "preflight": {"compose", "offline", "weights"},
    "offline": {"compose", "image_build"},
    "release": {"compose", "environments", "image_build", "offline"},
    "support": {"compose"},
    "acceptance": {"compose", "support"},
    "demo": {"compose", "environments", "local_mode"},
}
# Modules at the top of operations/bundle that are run by a script, not imported by a room.
COMMANDS = {"launch", "selftest", "status", "wheels"}
# What a node runs needs Python's standard library only. These files run in an environment of their own.
LIBRARIES = {
    "operations/container/metrics.py": {"prometheus_client"},
    "operations/container/supervisord.py": {"supervisor"},
    "operations/container/watchdog.py": {"prometheus_client"},
    # Runs in the environment tools, which scripts/audit_requirements.sh makes.
    "operations/bundle/environments/advisories.py": {"packaging"},
    # Read by the parser and the layout server, which have it.
    "common/layout_wire.py": {"numpy"},
    "common/paddle_program/operators.py": {"numpy"},
    "common/paddle_program/parameters.py": {"numpy"},
    "common/paddle_program/program.py": {"numpy"},
    # Read by the parser and the accuracy tool, which have them.
    "common/print_size.py": {"PIL", "numpy"},
    # Where it is there; a bare node has a reader of its own.
    "common/served_weights/catalog.py": {"yaml"},
}

# What a node runs, and what its images are made of.
SHIPPED = ("common", "config", "deploy", "model_code", "operations", "parser", "scripts")


def package(name: str) -> str | None:
    """The key of PACKAGES for a module's dotted name; None for a module that is not ours."""
    top = name.partition(".")[0]
    if top in PACKAGES:
        return top
    path = next((path for module, path in modules().items() if module.partition(".")[0] == top), None)
    return path.parts[0] if path and path.parts[0] in PACKAGES else None


def room(name: str) -> str:
    """The room of operations/bundle that a module lies in, or the module's own name at the top of the package."""
    return name.split(".")[1]


def test_packages_import_each_other_along_the_list():
    wrong = {
        f"{name} imports {other}"
        for name in modules()
        for other in imports(name)
        if (ours := package(name)) and (theirs := package(other)) and theirs not in {ours, *PACKAGES[ours]}
    }
    assert wrong == set()


def test_batch_takes_only_openers_and_converters_from_the_parser():
    theirs = {other for name in modules() if package(name) == "batch" for other in imports(name)}
    of_parser = {name for name in theirs if package(name) == "docparser"}
    assert of_parser and all(name.startswith(FROM_PARSER) for name in of_parser)


def test_nothing_that_ships_names_the_workshop():
    """Neither as an import nor as the module or the file of a child process."""
    names = {name.partition(".")[0] for name, path in modules().items() if path.parts[0] == "workshop"}
    words = ["git", "grep", "--untracked", "-wnE", "|".join(sorted({"workshop", *names}))]
    files = [*SHIPPED, "compose.yaml", "Dockerfile.*", ":!*.md"]
    found = subprocess.run([*words, "--", *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert names and (found.stdout, found.stderr) == ("", "")


def test_every_package_is_on_the_list():
    assert {name for name in modules() if package(name) is None} == set()
    rooms = {
        path.parts[2] for path in modules().values() if path.parts[:2] == ("operations", "bundle") and path.parts[3:]
    }
    assert rooms == set(ROOMS)


@pytest.mark.parametrize("allowed", [PACKAGES, ROOMS], ids=["packages", "rooms of bundle"])
def test_the_lists_have_no_circle(allowed: dict[str, set[str]]):
    assert set(graphlib.TopologicalSorter(allowed).static_order()) == set(allowed)


def test_rooms_of_bundle_import_each_other_along_the_list():
    wrong = {
        f"{name} imports {other}"
        for name in modules()
        if name.startswith("bundle.") and room(name) not in COMMANDS
        for other in imported_modules(name)
        if other.startswith("bundle.")
        and (
            room(other) in COMMANDS
            or (room(other) in ROOMS and room(other) not in {room(name), *ROOMS.get(room(name), ())})
        )
    }
    assert wrong == set()


def test_modules_of_operations_import_each_other_in_no_circle():
    names = [name for name, path in modules().items() if path.parts[0] == "operations"]
    graph = {name: {other for other in imported_modules(name) if other in names} for name in names}
    # A package's own modules may import from each other through it; what counts is the modules.
    graph = {
        name: {other for other in others if modules()[other].name != "__init__.py"} for name, others in graph.items()
    }
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(graph) > 60


def test_what_a_node_runs_needs_the_standard_library_only():
    wrong = {
        f"{path}: {top}"
        for name, path in modules().items()
        if package(name) in ("common", "bundle", "container")
        for top in {dotted.partition(".")[0] for dotted in imports(name)}
        if top not in sys.stdlib_module_names and package(top) is None and top not in LIBRARIES.get(str(path), ())
    }
    assert wrong == set()


def test_no_module_patches_the_search_path():
    pattern = re.compile(r"sys\.path(\[[^\]]*\]\s*\+?=[^=]|\s*\+?=[^=]|\.(insert|append|extend)\()|site\.addsitedir\(")
    assert {str(path) for path in tracked() if pattern.search((ROOT / path).read_text())} == set()


@pytest.mark.parametrize(
    "script", sorted((*ROOT.glob("scripts/*.sh"), *ROOT.glob("scripts/*.py"))), ids=lambda path: path.name
)
def test_a_scripts_header_names_the_modules_that_hold_its_procedure(script: Path):
    text = script.read_text()
    header = text[: text.index("set -e") if script.suffix == ".sh" else text.index("from lib")]
    named = re.findall(r"(?<![\w/.])[a-z_]+(?:/[a-z_]+)*(?:/|\.py|/__main__\.py)(?![\w/])|operations/[a-z_/]+", header)
    folders = [path for path in ROOT.glob("operations/**/") if "__pycache__" not in path.parts]
    homes = [ROOT, *folders]
    named = [name for name in named if name != script.name]
    assert named, "the header names no module"
    missing = [name for name in named if not any((home / name).exists() for home in homes)]
    assert missing == []


def test_names_that_are_imported_are_there():
    """Also in modules that no quick test loads, since they want a device's library."""
    files = {
        module_name(path.relative_to(ROOT / root)): path
        for root in ("common", "operations", "model_code", "parser")
        for path in (ROOT / root).rglob("*.py")
        if ".venvs" not in path.parts
    }
    missing = []
    for name, path in files.items():
        for dotted in read_imports(path, name):
            module = module_of(dotted, files)
            if module not in (None, dotted) and dotted[len(module) + 1 :] not in defined(files[module]):
                missing.append(f"{name}: {dotted}")
    assert missing == []
